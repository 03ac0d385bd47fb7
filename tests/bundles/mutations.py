"""Damage and tampering of every kind that a bundle may arrive with, drawn from a seed."""

from __future__ import annotations

import hashlib
import io
import random
import warnings
import zipfile


def unpacked(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(members, compress=zipfile.ZIP_STORED) -> bytes:
    """A zip of pairs or a mapping; a name may stand twice."""
    file = io.BytesIO()
    pairs = members.items() if isinstance(members, dict) else members
    with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(file, "w", compress) as archive:
        for name, content in pairs:
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content, compress)
    return file.getvalue()


def sealed(members) -> dict[str, bytes]:
    """With checksums that fit, as somebody would who wants to deceive."""
    others = {name: content for name, content in members.items() if name != "SHA256SUMS"}
    sums = "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in sorted(others.items()))
    return {**others, "SHA256SUMS": sums.encode()}


def mutant(whole: bytes, members: dict[str, bytes], rng: random.Random) -> tuple[str, bytes]:
    """What was done, and the file after it; never the same bytes as before."""
    while True:
        kind = rng.choice(list(KINDS))
        data = KINDS[kind](whole, members, rng)
        if data != whole:
            return kind, data


def _flipped(whole, members, rng):
    data = bytearray(whole)
    for _ in range(rng.choice((1, 1, 1, 2, 8, 64))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def _near_the_end(whole, members, rng):
    """The directory, which decides what there is."""
    data = bytearray(whole)
    for _ in range(rng.randint(1, 4)):
        data[len(data) - 1 - rng.randrange(min(900, len(data)))] = rng.randrange(256)
    return bytes(data)


def _cut(whole, members, rng):
    return whole[: rng.randrange(len(whole))]


def _headless(whole, members, rng):
    return whole[rng.randrange(1, len(whole)) :]


def _longer(whole, members, rng):
    more = rng.randbytes(rng.randint(1, 300))
    return rng.choice((whole + more, more + whole))


def _torn(whole, members, rng):
    at, size = rng.randrange(len(whole)), rng.randint(1, 400)
    return whole[:at] + rng.choice((b"", bytes(size), rng.randbytes(size))) + whole[at + size :]


def _changed_member(whole, members, rng):
    name = rng.choice(sorted(members))
    return packed(
        {**members, name: _spoilt(members[name], rng)}, rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    )


def _left_out(whole, members, rng):
    gone = rng.choice(sorted(members))
    return packed({name: content for name, content in members.items() if name != gone})


def _sealed_without(whole, members, rng):
    gone = rng.choice(sorted(set(members) - {"SHA256SUMS", "device_properties.json"}))
    return packed(sealed({name: content for name, content in members.items() if name != gone}))


def _unlisted(whole, members, rng):
    return packed({**members, rng.choice(("evil.py", "plan-9.bin", "x", "SHA512SUMS")): rng.randbytes(30)})


def _sealed_with(whole, members, rng):
    return packed(sealed({**members, rng.choice(("evil.py", "plan-99.bin", "graph-9.json")): rng.randbytes(30)}))


def _twice(whole, members, rng):
    name = rng.choice(sorted(members))
    return packed([*members.items(), (name, rng.choice((members[name], _spoilt(members[name], rng))))])


def _traversing(whole, members, rng):
    name = rng.choice(("../evil", "/etc/evil", "a/../../evil", "..", "C:\\evil", "plan/1.bin", "\x00", ".hidden", "é"))
    return packed(sealed({**members, name: b"evil"}))


def _swapped(whole, members, rng):
    one, other = rng.sample(sorted(set(members) - {"SHA256SUMS"}), 2)
    return packed({**members, one: members[other], other: members[one]})


def _sums(whole, members, rng):
    lines = members["SHA256SUMS"].splitlines(keepends=True)
    rng.shuffle(lines)
    odd = rng.choice((b"".join(lines), members["SHA256SUMS"].upper(), members["SHA256SUMS"] + b"\n", b"", b"\xff" * 70))
    return packed({**members, "SHA256SUMS": odd})


def _bomb(whole, members, rng):
    size = rng.choice((300_000, 3_000_000))
    return packed(sealed({**members, "plan-1.bin": bytes(size)}), zipfile.ZIP_DEFLATED)


def _junk(whole, members, rng):
    return rng.choice((b"", b"PK", rng.randbytes(rng.randint(1, 2000)), b"PK\x05\x06" + bytes(18)))


def _spoilt(content, rng):
    data = bytearray(content)
    if not data:
        return b"x"
    at = rng.randrange(len(data))
    kind = rng.randrange(3)
    if kind == 0:
        data[at] ^= 1 << rng.randrange(8)
    elif kind == 1:
        del data[at:]
    else:
        data.insert(at, rng.randrange(256))
    return bytes(data)


KINDS = {
    "flipped bits": _flipped,
    "a spoilt directory": _near_the_end,
    "cut off": _cut,
    "no beginning": _headless,
    "more bytes": _longer,
    "torn": _torn,
    "a changed member": _changed_member,
    "a member left out": _left_out,
    "a member left out, checksums to fit": _sealed_without,
    "an unlisted member": _unlisted,
    "a member too many, checksums to fit": _sealed_with,
    "a name twice": _twice,
    "a path": _traversing,
    "members swapped": _swapped,
    "other checksums": _sums,
    "a zip bomb": _bomb,
    "junk": _junk,
}
