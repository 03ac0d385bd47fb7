"""Which archive of this distribution carries NVIDIA's user-space driver, read from the machine's own apt sources.

Debian keeps it in the component `non-free`, Ubuntu in `restricted`. Many machines have only `main` switched on, but
their sources already name a mirror, the suites and the keys that sign them: the same lines with the component replaced
lead to the package. Nothing here names a host, and nothing here touches a file.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

# The archive's own components; a source that has none of them belongs to somebody else (`stable`, `cloud-sdk`, ...).
_COMPONENTS = frozenset({"main", "contrib", "non-free", "non-free-firmware", "restricted", "universe", "multiverse"})
_SUITE_ENDINGS = (
    "",
    "-updates",
    "-security",
    "-backports",
    "-backports-sloppy",
    "-proposed-updates",
    "-proposed",
    "/updates",
)
_DEBIAN_ALIASES = frozenset({"oldoldstable", "oldstable", "stable", "testing", "unstable", "sid"})
# What apt reads as false.
_NO = frozenset({"no", "false", "without", "off", "disable", "0"})

_ONE_LINE = re.compile(
    r"^\s*deb\s+(?P<options>\[[^\]]*\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)\s+(?P<components>[^#]*[^#\s])\s*(?:#.*)?$"
)


@dataclass(frozen=True)
class Distribution:
    """A distribution of the Debian or Ubuntu family: its name for people, and what its archive calls things."""

    name: str
    family: str
    codenames: frozenset[str]

    @property
    def component(self) -> str:
        """The component that carries NVIDIA's driver."""
        return "non-free" if self.family == "debian" else "restricted"

    def owns_suite(self, suite: str) -> bool:
        """Whether a suite is this distribution's own: its release, or that release's updates, security, backports."""
        return any(suite == name + ending for name in self.codenames for ending in _SUITE_ENDINGS)


def os_release_fields(os_release: str) -> dict[str, str]:
    """The fields of /etc/os-release."""
    fields: dict[str, str] = {}
    for line in os_release.splitlines():
        name, equals, value = line.strip().partition("=")
        if equals and not name.startswith("#"):
            fields[name] = " ".join(shlex.split(value))
    return fields


def read_distribution(os_release: str) -> Distribution | None:
    """The distribution a /etc/os-release describes; None where it is neither Debian's family nor Ubuntu's."""
    fields = os_release_fields(os_release)
    identities = [fields.get("ID", ""), *fields.get("ID_LIKE", "").split()]
    # An Ubuntu derivative is "like" both, and its packages come from Ubuntu's archive.
    family = next((name for name in ("ubuntu", "debian") if name in identities), None)
    if family is None:
        return None
    names = ("VERSION_CODENAME", "UBUNTU_CODENAME", "DEBIAN_CODENAME")
    codenames = {fields[name] for name in names if fields.get(name)}
    if family == "debian":
        codenames |= _DEBIAN_ALIASES
    return Distribution(fields.get("PRETTY_NAME") or family.capitalize(), family, frozenset(codenames))


def driver_sources_one_line(text: str, distribution: Distribution) -> str:
    """The lines of a `.list` file that are the distribution's own, each with the component that carries the driver.

    Options in brackets (architectures, signing keys) stay as they are. Comments, sources of source packages, and other
    people's archives are left out, and so is a line that would then stand there twice.
    """
    lines: dict[str, None] = {}
    for line in text.splitlines():
        match = _ONE_LINE.match(line)
        if match is None or not distribution.owns_suite(match["suite"]):
            continue
        if _COMPONENTS.isdisjoint(match["components"].split()):
            continue
        options = (match["options"] or "").strip()
        parts = ["deb", options, match["uri"], match["suite"], distribution.component]
        lines[" ".join(part for part in parts if part)] = None
    return "".join(f"{line}\n" for line in lines)


def driver_sources_deb822(text: str, distribution: Distribution) -> str:
    """The same for a `.sources` file: its own stanzas, own suites, component replaced, every other field verbatim."""
    stanzas: dict[str, None] = {}
    for stanza in _deb822_stanzas(text):
        values = {name.lower(): value for name, value in stanza}
        suites = [suite for suite in values.get("suites", "").split() if distribution.owns_suite(suite)]
        if (
            not suites
            or "deb" not in values.get("types", "").split()
            or values.get("enabled", "yes").strip().lower() in _NO
            or _COMPONENTS.isdisjoint(values.get("components", "").split())
        ):
            continue
        replaced = {"types": "deb", "suites": " ".join(suites), "components": distribution.component}
        stanzas["".join(f"{name}: {replaced.get(name.lower(), value)}\n" for name, value in stanza)] = None
    return "\n".join(stanzas)


def _deb822_stanzas(text: str) -> list[list[tuple[str, str]]]:
    """Stanzas of (field, value); a value keeps its continuation lines, as an embedded signing key needs."""
    stanzas: list[list[tuple[str, str]]] = [[]]
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        if not line.strip():
            stanzas.append([])
        elif line[0] in " \t" and stanzas[-1]:
            name, value = stanzas[-1][-1]
            stanzas[-1][-1] = (name, f"{value}\n{line.rstrip()}")
        else:
            name, _, value = line.partition(":")
            stanzas[-1].append((name.strip(), value.strip()))
    return [stanza for stanza in stanzas if stanza]


def ubuntu_driver_packages(search_output: str) -> list[str]:
    """Ubuntu's driver packages in the output of `apt-cache search`, newest driver first.

    Ubuntu has one per driver branch, `libnvidia-compute-NNN`, some also or only as `-server`; of one branch the plain
    one comes first.
    """
    found = re.findall(r"^(libnvidia-compute-(\d+)(-server)?) - ", search_output, flags=re.MULTILINE)
    return [name for name, _, _ in sorted(found, key=lambda match: (-int(match[1]), match[2]))]
