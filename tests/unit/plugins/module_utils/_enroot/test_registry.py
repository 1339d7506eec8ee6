# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a registry gives no image, with registries that answer as NGC, Docker's and a small one with a password do."""

from __future__ import annotations

import base64
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._enroot.credentials import Login
from ansible_collections.hpcai.gpucluster.plugins.module_utils._enroot.image import Reference, parse, reference
from ansible_collections.hpcai.gpucluster.plugins.module_utils._enroot.registry import Answer, cause

NGC = reference(parse("nvcr.io/nvidia/pytorch:25.10-py3").uri)
NGC_LOGINS = [Login("nvcr.io", "$oauthtoken", "s3cret"), Login("authn.nvidia.com", "$oauthtoken", "s3cret")]
OWN = reference(parse("registry.example.com:5000/team/base:1").uri)
OWN_LOGIN = Login("registry.example.com", "bob", "s3cret")
BEARER = 'Bearer realm="https://authn.nvidia.com/token",scope="group/ngc"'
BASIC = 'Basic realm="Registry Realm"'


class Registry:
    """Answers as a registry that knows one image and one login."""

    def __init__(self, challenge: str = "", *, public: bool = False, there: bool = True, down: str = "") -> None:
        self._challenge = challenge
        self._public = public
        self._there = there
        self._down = down
        self.asked: list[str] = []

    def __call__(self, method: str, url: str, headers: t.Mapping[str, str]) -> Answer:
        self.asked.append(f"{method} {url}")
        if self._down and self._down in url:
            return Answer(0, body="Name or service not known")
        given = headers.get("Authorization", "")
        known = given.startswith("Basic ") and base64.b64decode(given[6:]).endswith(b":s3cret")
        if "/token" in url:
            return Answer(200, body='{"token": "t0ken"}') if known or (self._public and not given) else Answer(401)
        if self._challenge and not (known or given == "Bearer t0ken"):
            return Answer(401, self._challenge)
        return Answer(200 if self._there else 404)


@pytest.mark.parametrize(
    ("image", "logins", "registry", "expected"),
    [
        (NGC, NGC_LOGINS, Registry(BEARER), ""),
        (NGC, NGC_LOGINS, Registry(BEARER, there=False), "nvcr.io has no 25.10-py3 of nvidia/pytorch: no such tag"),
        (NGC, [one._replace(password="old") for one in NGC_LOGINS], Registry(BEARER), "refused the login $oauthtoken"),
        (NGC, [], Registry(BEARER), "authn.nvidia.com refused the login: none is known"),
        (NGC, [], Registry(BEARER, public=True, there=False), "no such tag"),
        (NGC, [], Registry(BEARER, down="nvcr.io"), "nvcr.io cannot be reached: Name or service not known"),
        (NGC, [], Registry(BEARER, down="authn"), "authn.nvidia.com cannot be reached"),
        (OWN, [OWN_LOGIN], Registry(BASIC), ""),
        (OWN, [OWN_LOGIN], Registry(BASIC, there=False), "5000 has no 1 of team/base: no such tag"),
        (OWN, [OWN_LOGIN._replace(password="old")], Registry(BASIC), "refused the login bob for team/base"),
        (OWN, [], Registry(BASIC), "registry.example.com:5000 refused the login: none is known"),
        (OWN._replace(user="eve"), [OWN_LOGIN], Registry(BASIC), "refused the login: none is known"),
        (OWN, [], Registry(there=False), "no such tag"),
        (OWN, [], Registry(), ""),
    ],
)  # fmt: skip
def test_the_cause_is_named_and_no_password(
    image: Reference, logins: list[Login], registry: Registry, expected: str
) -> None:
    found = cause(image, logins, registry)

    assert expected in found
    assert bool(expected) == bool(found)
    assert "s3cret" not in found


def test_the_registry_is_asked_once_and_a_token_is_asked_for_as_the_registry_says() -> None:
    registry = Registry(BEARER)

    cause(NGC, NGC_LOGINS, registry)

    manifest = "HEAD https://nvcr.io/v2/nvidia/pytorch/manifests/25.10-py3"
    assert registry.asked == [manifest, "GET https://authn.nvidia.com/token?scope=group%2Fngc", manifest]


def test_a_password_that_is_a_command_is_left_to_enroot() -> None:
    assert cause(OWN, [OWN_LOGIN._replace(password="$(cat /key)")], Registry(BASIC)) == ""


def test_other_faults_of_a_server_are_told() -> None:
    assert cause(OWN, [], lambda *_: Answer(503)) == "registry.example.com:5000 answered with HTTP status 503"


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("ubuntu", ("", "registry-1.docker.io", "library/ubuntu", "latest")),
        ("nvidia/cuda:13.0.1", ("", "registry-1.docker.io", "nvidia/cuda", "13.0.1")),
        ("bob@ghcr.io#team/a:2@sha256:" + "0" * 64, ("bob", "ghcr.io", "team/a", "sha256:" + "0" * 64)),
    ],
)
def test_a_registry_is_asked_in_its_own_words(image: str, expected: tuple[str, ...]) -> None:
    assert reference(parse(image).uri) == expected
