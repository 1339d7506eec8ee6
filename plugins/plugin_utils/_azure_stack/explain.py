# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Turn an error of Azure into one message: what, found, allowed, and what to do."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.errors import BrokenAnswerError, NoAnswerError

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.errors import Cause, RequestError

_QUOTA = re.compile(
    r"exceeding approved (?P<name>.+?)(?: Cores)? quota.*?Location: (?P<location>[^,]+), "
    r"Current Limit: (?P<limit>\d+), Current Usage: (?P<used>\d+), Additional Required: (?P<more>\d+)",
    re.IGNORECASE | re.DOTALL,
)
# What to do, by code in lower case. The message of Azure itself comes first.
ADVICE = {
    "skunotavailable": "choose another VM size, location or zone, or ask for access to this size",
    "allocationfailed": "Azure has no free machines of this size now; try later, take fewer, or reserve capacity",
    "zonalallocationfailed": "Azure has no free machines of this size in this zone now; try another zone or later",
    "overconstrainedallocationrequest": "no place fits all constraints; take fewer machines or no proximity group",
    "overconstrainedzonalallocationrequest": "no place fits all constraints; try another zone or take fewer machines",
    "requestdisallowedbypolicy": "a policy of the subscription forbids it; ask its owner for an exemption",
    "authorizationfailed": "assign the identity a role with this action; Contributor with Role Based Access Control "
    "Administrator is sufficient, except for roleDefinitions: these need Owner or User Access Administrator",
    "roledefinitiondoesnotexist": "the new role is not known everywhere yet; run again in a minute",
    "linkedauthorizationfailed": "assign the identity a role with this action on the other resource too",
    "expiredtoken": "sign in again",
    "expiredauthenticationtoken": "sign in again",
    "invalidauthenticationtoken": "sign in again",
    "resourcegroupnotfound": "somebody deleted the resource group; run again to make everything anew",
    "resourcegroupbeingdeleted": "wait until the resource group is gone, and run again",
    "principalnotfound": "the new identity is not known everywhere yet; run again in a minute",
    "missingsubscriptionregistration": "register the resource provider: az provider register --namespace NAME",
    "marketplacepurchaseeligibilityfailed": "accept the terms of the image: az vm image terms accept --urn URN",
}


def message(error: RequestError) -> str:
    """Return the causes of an error in one line, the request ID at the end."""
    if isinstance(error, (NoAnswerError, BrokenAnswerError)):
        return str(error)
    found = [_cause(one) for one in error.causes]
    suffix = f" (request id {error.request_id})" if error.request_id else ""
    return "; ".join(dict.fromkeys(found)) + suffix


def _cause(cause: Cause) -> str:
    where = f"{_short(cause.target)}: " if cause.target else ""
    quota = _QUOTA.search(cause.message)
    if quota:
        return where + _quota(quota)
    advice = ADVICE.get(cause.code.lower())
    text = cause.message.rstrip(". ")
    return f"{where}{cause.code}: {text}" + (f"; {advice}" if advice else "")


def _quota(match: re.Match[str]) -> str:
    used, more, limit = (int(match[name]) for name in ("used", "more", "limit"))
    return (
        f"the quota {match['name']} in {match['location']} is too small: {more} more vCPUs are asked for, {used} are "
        f"in use, {limit} are allowed; ask for a quota of at least {used + more}, or take fewer or smaller machines"
    )


def _short(target: str) -> str:
    """Return type and name of a resource ID."""
    parts = target.rpartition("/providers/")[2].split("/")
    return f"{'/'.join([parts[0], *parts[1::2]])} {'/'.join(parts[2::2])}" if len(parts) > 2 else target
