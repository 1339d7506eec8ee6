# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Read and change Slurm's accounting through the sacctmgr command.

This code reads the parsable output with named columns, because that has the same form from 22.05 on. The JSON output
does not. B(WOPLimits) shows only the limits of the association itself, not the inherited ones.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import limits
from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm.accounts import Accounting

if t.TYPE_CHECKING:
    from collections.abc import Sequence

    from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm.accounts import Settings
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import Runner

_ASSOCIATION = ("Account", "User", "Partition", "ParentName", "Share", "DefaultQOS", "QOS")
_QOS = ("Name", "Priority", "Preempt", "PreemptMode", "Flags")
_LISTS = ("QOS", "Preempt", "Flags")
# The forms of settings that are no free text.
_FORMS = {
    "Fairshare": re.compile(r"\d{1,10}|parent", re.ASCII),
    "Priority": re.compile(r"\d{1,10}", re.ASCII),
    "AdminLevel": re.compile("Not Set|None|Operator|Administrator"),
}


class SacctmgrError(Exception):
    """sacctmgr failed or printed something that this code does not understand."""


class Sacctmgr:
    """A stateless wrapper of sacctmgr. The injected runner starts all processes."""

    def __init__(self, run: Runner, executable: str = "sacctmgr") -> None:
        self._run = run
        self._executable = executable

    def read(self, cluster: str) -> Accounting:
        """Return the accounting of a cluster."""
        result = Accounting(tres=self._tres())
        clusters = [row[0] for row in self._rows("cluster", ("Cluster",))]
        if cluster not in clusters:
            known = ", ".join(clusters) or "none"
            raise SacctmgrError(
                f"the accounting knows no cluster {cluster!r} (known: {known}); "
                "a slurmctld with that ClusterName has to run once"
            )
        for row in self._rows("qos", (*_QOS, *_columns(limits.QOS), "Descr")):
            name, rest = row[0], row[1:]
            names = (*_QOS[1:], *(limit.name for limit in limits.limits(limits.QOS)), "Description")
            result.qos[name] = _formed(name, _settings(dict(zip(names, rest)), limits.QOS))
        self._read_associations(cluster, result)
        for name, organization, description in self._rows("account", ("Account", "Organization", "Descr")):
            words = {"Organization": organization, "Description": description}
            if name in result.accounts:
                result.accounts[name].update(words)
            else:
                result.elsewhere[name] = words
        for name, default, level in self._rows("user", ("User", "DefaultAccount", "AdminLevel")):
            result.users[name] = _formed(name, {"DefaultAccount": default, "AdminLevel": level})
        _refuse_lost(result)
        return result

    def change(self, arguments: Sequence[str]) -> None:
        """Make one change without a confirmation prompt."""
        rc, stdout, stderr = self._run([self._executable, "-i", *arguments])
        if rc != 0:
            raise SacctmgrError(f"sacctmgr {' '.join(arguments)} exited {rc}: {_message(stdout, stderr)}")

    def _read_associations(self, cluster: str, result: Accounting) -> None:
        """Add accounts and their users to the result."""
        names = (*_ASSOCIATION[3:], *(limit.name for limit in limits.limits(limits.ASSOCIATION)))
        columns = (*_ASSOCIATION, *_columns(limits.ASSOCIATION))
        seen = set()
        for row in self._rows("assoc", columns, "WOPLimits", f"cluster={cluster}"):
            account, user, partition = row[:3]
            values = dict(zip(names, row[3:]))
            values["Parent"], values["Fairshare"] = values.pop("ParentName"), values.pop("Share")
            settings = _formed(user or account, _settings(values, limits.ASSOCIATION))
            key = (user, account, partition)
            if key in seen:
                raise SacctmgrError(f"sacctmgr show assoc lists {'|'.join(row[:3])!r} twice")
            seen.add(key)
            if user:
                result.associations[user, account, partition] = settings
            else:
                result.accounts[account] = settings

    def _tres(self) -> frozenset[str]:
        """Return the names of the TRES that Slurm records."""
        rows = self._rows("tres", ("Type", "Name"))
        return frozenset("/".join(filter(None, row)) for row in rows)

    def _rows(self, entity: str, columns: Sequence[str], *conditions: str) -> list[list[str]]:
        """Return the rows of a listing. Only the last column may contain the separator."""
        arguments = ["-n", "-P", "show", entity, *conditions, f"format={','.join(columns)}"]
        rc, stdout, stderr = self._run([self._executable, *arguments])
        if rc != 0:
            raise SacctmgrError(f"sacctmgr show {entity} exited {rc}: {_message(stdout, stderr)}")
        if stdout and not stdout.endswith("\n"):
            raise SacctmgrError(f"the output of sacctmgr show {entity} is cut: {stdout[-60:]!r}")
        rows = [line.split("|", len(columns) - 1) for line in stdout.splitlines() if line.strip()]
        free_text = columns[-1] == "Descr"
        for row in rows:
            names = row[:-1] if free_text else row
            if len(row) != len(columns) or not row[0].strip() or not "".join(names).isprintable():
                raise SacctmgrError(f"unexpected line from sacctmgr show {entity}: {'|'.join(row)!r}")
        return rows


def _columns(table: dict[str, limits.Limit]) -> list[str]:
    """Return the columns that show the limits of a table."""
    return [limit.column for limit in limits.limits(table)]


def _settings(values: dict[str, str], table: dict[str, limits.Limit]) -> Settings:
    """Return values in their comparable form."""
    settings: Settings = {}
    for name, value in values.items():
        limit = table.get(name.lower())
        if limit:
            settings[name] = limits.parse(limit, value)
        else:
            settings[name] = frozenset(filter(None, value.split(","))) if name in _LISTS else value
    return settings


def _formed(name: str, values: Settings) -> Settings:
    """Return the settings of a name; raise SacctmgrError for one that has not its form. Empty is not set."""
    for key, form in _FORMS.items():
        if values.get(key) and not form.fullmatch(values[key]):
            raise SacctmgrError(f"sacctmgr says that {key} of {name} is {values[key]!r}")
    return values


def _refuse_lost(found: Accounting) -> None:
    """Refuse an accounting that names an account or a user that its list of all of them does not have."""
    accounts = sorted(name for name, settings in found.accounts.items() if "Organization" not in settings)
    users = sorted({user for user, _account, _partition in found.associations} - set(found.users))
    accounts += sorted({account for _user, account, _partition in found.associations} - set(found.accounts))
    for kind, names in (("account", accounts), ("user", users)):
        if names:
            raise SacctmgrError(f"sacctmgr show {kind} does not list {names[0]!r}, which has an association")


def _message(stdout: str, stderr: str) -> str:
    """Return the error message of sacctmgr on one line."""
    return " ".join(f"{stderr} {stdout}".split())
