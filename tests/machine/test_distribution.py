"""The machine's own apt sources lead to the driver: Debian 11 to 13, Ubuntu 22.04 and 24.04, both file formats."""

from __future__ import annotations

import pytest

from engine.machine.distribution import (
    Distribution,
    driver_sources_deb822,
    driver_sources_one_line,
    read_distribution,
    ubuntu_driver_packages,
)


def debian(codename: str, version: str) -> Distribution:
    distribution = read_distribution(
        f'PRETTY_NAME="Debian GNU/Linux {version} ({codename})"\nNAME="Debian GNU/Linux"\nVERSION_ID="{version}"\n'
        f'VERSION="{version} ({codename})"\nVERSION_CODENAME={codename}\nID=debian\n'
    )
    assert distribution is not None
    return distribution


def ubuntu(codename: str, version: str) -> Distribution:
    distribution = read_distribution(
        f'PRETTY_NAME="Ubuntu {version} LTS"\nNAME="Ubuntu"\nVERSION_ID="{version}"\nVERSION_CODENAME={codename}\n'
        f"ID=ubuntu\nID_LIKE=debian\nUBUNTU_CODENAME={codename}\n"
    )
    assert distribution is not None
    return distribution


BULLSEYE, BOOKWORM, TRIXIE = debian("bullseye", "11"), debian("bookworm", "12"), debian("trixie", "13")
JAMMY, NOBLE = ubuntu("jammy", "22.04.5"), ubuntu("noble", "24.04.2")


def test_debian_and_ubuntu_are_told_apart():
    assert (BOOKWORM.name, BOOKWORM.family, BOOKWORM.component) == (
        "Debian GNU/Linux 12 (bookworm)",
        "debian",
        "non-free",
    )
    assert (NOBLE.name, NOBLE.family, NOBLE.component) == ("Ubuntu 24.04.2 LTS", "ubuntu", "restricted")


def test_a_derivative_uses_the_archive_it_comes_from():
    mint = read_distribution(
        'NAME="Linux Mint"\nID=linuxmint\nID_LIKE="ubuntu debian"\nVERSION_CODENAME=wilma\nUBUNTU_CODENAME=noble\n'
    )
    assert mint is not None
    assert mint.component == "restricted"
    assert mint.owns_suite("noble-updates")


@pytest.mark.parametrize("text", ["", "ID=fedora\nVERSION_ID=42\n", 'ID="opensuse-leap"\nID_LIKE="suse opensuse"\n'])
def test_other_distributions_are_not_guessed_at(text):
    assert read_distribution(text) is None


@pytest.mark.parametrize(
    ("suite", "own"),
    [
        ("bookworm", True),
        ("bookworm-updates", True),
        ("bookworm-security", True),
        ("bookworm-backports", True),
        ("bookworm-proposed-updates", True),
        ("stable", True),
        ("stable-security", True),
        ("trixie", False),
        ("bookworm-pgdg", False),
        ("cloud-sdk-bookworm", False),
        ("nodistro", False),
        ("/", False),
    ],
)
def test_own_suites(suite, own):
    assert BOOKWORM.owns_suite(suite) is own


def test_debian_11_one_line():
    text = """\
# deb cdrom:[Debian GNU/Linux 11.0.0 _Bullseye_ - Official amd64 NETINST 20210814-10:07]/ bullseye main

deb http://mirror.example.org/debian/ bullseye main
deb-src http://mirror.example.org/debian/ bullseye main

deb http://security.example.org/debian-security bullseye-security main contrib   # security
deb-src http://security.example.org/debian-security bullseye-security main contrib
deb [ arch=amd64,arm64 signed-by=/usr/share/keyrings/local.gpg ] https://mirror.example.org/debian bullseye-updates main
deb cdrom:[Debian GNU/Linux 11.0.0 _Bullseye_ - Official amd64 NETINST]/ bullseye main
"""
    assert driver_sources_one_line(text, BULLSEYE).splitlines() == [
        "deb http://mirror.example.org/debian/ bullseye non-free",
        "deb http://security.example.org/debian-security bullseye-security non-free",
        "deb [ arch=amd64,arm64 signed-by=/usr/share/keyrings/local.gpg ] https://mirror.example.org/debian"
        " bullseye-updates non-free",
    ]


def test_other_peoples_lines_are_left_out():
    text = """\
deb https://packages.example.com/apt cloud-sdk-bookworm main
deb [arch=amd64 signed-by=/etc/apt/keyrings/docker.asc] https://download.example.com/linux/debian bookworm stable
deb https://apt.example.com/repos/apt bookworm-pgdg main
deb https://cuda.example.com/repos/debian12/x86_64/ /
"""
    assert driver_sources_one_line(text, BOOKWORM) == ""


def test_lines_that_become_the_same_stand_once():
    text = """\
deb http://mirror.example.org/ubuntu/ jammy main restricted
deb http://mirror.example.org/ubuntu/ jammy universe
deb http://mirror.example.org/ubuntu/ jammy multiverse
deb http://mirror.example.org/ubuntu/ jammy-updates main restricted
# deb http://mirror.example.org/ubuntu/ jammy-backports main restricted universe multiverse
deb [trusted=yes] http://security.example.org/ubuntu/ jammy-security main restricted
deb http://security.example.org/ubuntu/ jammy-security universe
"""
    assert driver_sources_one_line(text, JAMMY).splitlines() == [
        "deb http://mirror.example.org/ubuntu/ jammy restricted",
        "deb http://mirror.example.org/ubuntu/ jammy-updates restricted",
        "deb [trusted=yes] http://security.example.org/ubuntu/ jammy-security restricted",
        "deb http://security.example.org/ubuntu/ jammy-security restricted",
    ]


def test_debian_12_one_line_that_has_the_component_already():
    text = "deb http://mirror.example.org/debian stable main contrib non-free non-free-firmware\n"
    assert driver_sources_one_line(text, BOOKWORM) == "deb http://mirror.example.org/debian stable non-free\n"


def test_debian_12_deb822():
    text = """\
Types: deb
# http://snapshot.example.org/archive/debian/20250520T000000Z
URIs: http://mirror.example.org/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
# http://snapshot.example.org/archive/debian-security/20250520T000000Z
URIs: http://mirror.example.org/debian-security
Suites: bookworm-security
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
"""
    assert (
        driver_sources_deb822(text, BOOKWORM)
        == """\
Types: deb
URIs: http://mirror.example.org/debian
Suites: bookworm bookworm-updates
Components: non-free
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://mirror.example.org/debian-security
Suites: bookworm-security
Components: non-free
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
"""
    )


def test_debian_13_deb822_keeps_an_embedded_key_and_drops_source_packages():
    text = """\
Types: deb deb-src
URIs: mirror+file:/etc/apt/mirrors/debian.list
Suites: trixie trixie-updates trixie-backports trixie-pgdg
Components: main non-free-firmware
Architectures: amd64
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 mDMEYCQjIxYJKwYBBAHaRw8BAQdAD/P5Nvvnvk66SxBBHDbhRml9ORg1WV5CvzKY
 -----END PGP PUBLIC KEY BLOCK-----
"""
    assert (
        driver_sources_deb822(text, TRIXIE)
        == """\
Types: deb
URIs: mirror+file:/etc/apt/mirrors/debian.list
Suites: trixie trixie-updates trixie-backports
Components: non-free
Architectures: amd64
Signed-By:\x20
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 mDMEYCQjIxYJKwYBBAHaRw8BAQdAD/P5Nvvnvk66SxBBHDbhRml9ORg1WV5CvzKY
 -----END PGP PUBLIC KEY BLOCK-----
"""
    )


def test_ubuntu_24_deb822_with_fields_in_any_case_and_stanzas_switched_off():
    text = """\
types: deb
uris: http://mirror.example.org/ubuntu/
suites: noble noble-updates noble-backports
components: main restricted universe multiverse
signed-by: /usr/share/keyrings/ubuntu-archive-keyring.gpg


Enabled: no
Types: deb
URIs: http://mirror.example.org/ubuntu/
Suites: noble-proposed
Components: main restricted

Types: deb-src
URIs: http://mirror.example.org/ubuntu/
Suites: noble
Components: main restricted

Enabled: yes
Types: deb
URIs: http://security.example.org/ubuntu/
Suites: noble-security
Components: main restricted universe multiverse

Types: deb
URIs: https://packages.example.com/node
Suites: nodistro
Components: main

Types: deb
URIs: https://cuda.example.com/repos/ubuntu2404/x86_64/
Suites: /
"""
    assert (
        driver_sources_deb822(text, NOBLE)
        == """\
types: deb
uris: http://mirror.example.org/ubuntu/
suites: noble noble-updates noble-backports
components: restricted
signed-by: /usr/share/keyrings/ubuntu-archive-keyring.gpg

Enabled: yes
Types: deb
URIs: http://security.example.org/ubuntu/
Suites: noble-security
Components: restricted
"""
    )


def test_the_newest_driver_of_ubuntu_comes_first():
    search = """\
libnvidia-compute-535 - NVIDIA libcompute package
libnvidia-compute-535-server - NVIDIA libcompute package
libnvidia-compute-570-server - NVIDIA libcompute package
libnvidia-compute-550 - Transitional package for libnvidia-compute-570
libnvidia-compute-570 - NVIDIA libcompute package
libnvidia-compute-90 - an old one, to be sorted as a number
libnvidia-compute-580-open - something else
"""
    assert ubuntu_driver_packages(search) == [
        "libnvidia-compute-570",
        "libnvidia-compute-570-server",
        "libnvidia-compute-550",
        "libnvidia-compute-535",
        "libnvidia-compute-535-server",
        "libnvidia-compute-90",
    ]
    assert ubuntu_driver_packages("") == []
