"""Private keys in the forms that programs give them are known; texts about keys are read; nothing takes long."""

import base64
import functools
import hashlib
import json

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa
from hypothesis import given
from hypothesis import strategies as st

from hobus.actors.ho1_executor.key_text import key_rule
from hobus.bus.zeromq import curve
from hobus.config.secret_refs import looks_secret
from tests.laws import of_each
from tests.linear_time import is_linear

PEM = serialization.Encoding.PEM
PLAIN = serialization.NoEncryption()
LOCKED = serialization.BestAvailableEncryption(b"word")


def drawn(bits: int) -> int:
    """An odd number of so many bits, the same each time."""
    return int.from_bytes(hashlib.shake_256(b"%d" % bits).digest(bits // 8)) | 1 << bits - 1 | 1


@functools.cache
def private_key(kind: str):
    """One that was just made; of DSA not of primes, which take long to find, for its file looks the same."""
    of_dsa = dsa.DSAParameterNumbers(p=drawn(2_048), q=drawn(256), g=3)
    public = dsa.DSAPublicNumbers(pow(of_dsa.g, drawn(248), of_dsa.p), of_dsa)
    return {
        "rsa": lambda: rsa.generate_private_key(65_537, 2_048),
        "dsa": lambda: dsa.DSAPrivateNumbers(drawn(248), public).private_key(),
        "ec": lambda: ec.generate_private_key(ec.SECP256R1()),
        "ed25519": ed25519.Ed25519PrivateKey.generate,
    }[kind]()


@functools.cache
def pem(kind: str, form: str = "PKCS8", *, is_locked: bool = False) -> str:
    """Its file."""
    how = LOCKED if is_locked else PLAIN
    return private_key(kind).private_bytes(PEM, getattr(serialization.PrivateFormat, form), how).decode()


def lines_of(text: str) -> list[str]:
    """Its body."""
    return [line for line in text.splitlines() if not line.startswith("-----")]


def flat(text: str) -> str:
    """Its body in one line."""
    return "".join(lines_of(text))


def b64(text: str | bytes) -> str:
    """In base64."""
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


FORMS = {
    "of kubeconfig": lambda key: f"users:\n- user:\n    client-key-data: {b64(key)}\n",
    "encoded in lines": lambda key: base64.encodebytes(key.encode()).decode(),
    "encoded twice": lambda key: b64(f"a: {b64(key)}\n"),
    "of an environment": lambda key: f"A=b\nPRIVATE_KEY={flat(key)}\n",
    "of an environment with escapes": lambda key: 'PRIVATE_KEY="' + key.replace("\n", "\\n") + '"',
    "in JSON": lambda key: json.dumps({"private_key": flat(key)}),
    "in JSON in JSON": lambda key: json.dumps(json.dumps({"k": key}).replace("-", "\\u002d")),
    "in quotes": lambda key: f'"{flat(key)}"',
    "without padding, base64url": lambda key: flat(key).rstrip("=").translate(str.maketrans("+/", "-_")),
    "in hex": lambda key: f"0x{base64.b64decode(flat(key)).hex()}",
    "behind a comment": lambda key: "# of the server\n" + "\n".join(lines_of(key)),
    "without its first line": lambda key: key.partition("\n")[2],
    "with four dashes": lambda key: key.replace("-----", "----"),
    "in small letters": lambda key: key.replace("BEGIN", "begin").replace("PRIVATE KEY", "private\u00a0key"),
    "indented, with CRLF": lambda key: "\r\n".join(f"  {line}" for line in key.splitlines()),
    "in a patch": lambda key: "\n".join(f"+{line}" for line in key.splitlines()),
    "in YAML": lambda key: "key: >-\n  " + "\n  ".join(lines_of(key)),
    "in XML": lambda key: f"<key>{flat(key)}</key>",
    "in one line": lambda key: key.replace("\n", ""),
}


@pytest.mark.parametrize(
    ("kind", "kept", "is_locked"),
    [
        ("rsa", "PKCS8", False), ("rsa", "TraditionalOpenSSL", False), ("rsa", "PKCS8", True), ("dsa", "TraditionalOpenSSL", False),
        ("ec", "PKCS8", False), ("ec", "TraditionalOpenSSL", False), ("ed25519", "PKCS8", False), ("ed25519", "PKCS8", True),
        ("ed25519", "OpenSSH", False),
    ],
)  # fmt: skip
def test_a_private_key_is_known_by_its_body_whatever_stands_around_it(kind, kept, is_locked):
    """By the first bytes of what its base64 or hex holds."""
    key = pem(kind, kept, is_locked=is_locked)
    assert [form for form, written in FORMS.items() if key_rule(written(key)) is None] == []


VALUE = b64(bytes(range(7, 39)))
PAIR = curve.new_pair()
JWK = {"kty": "EC", "crv": "P-256", "d": "jpsQnnGQmL-YBIffH1136cspYG6-0iY7X1fCE9-E9LI"}


@of_each(
    [
        (f"[Interface]\nPrivateKey = {VALUE}\nAddress = 10.0.0.1/24\n", "under the name"),
        (f"[Peer]\nPresharedKey = {VALUE}\n", "under the name"),
        (f"Private-key-format: v1.3\nAlgorithm: 13\nPrivateKey: {VALUE}\n", "under the name"),
        (f"Private-key-format: v1.3\nPrivateExponent: {VALUE[:43]}{VALUE}\n", "under the name"),
        (f"    private_exponent:\n        {'00:9a:' * 8}\n", "under the name"),
        (f'metadata\ncurve\n    public-key = "{PAIR.public.decode()}"\n    secret-key = "{PAIR.secret.decode()}"\n', "under the name"),
        (f"secret: {PAIR.secret.decode()}\n", "under the name"), (json.dumps({"secret": PAIR.secret.decode()}), "under the name"),
        (f"secret_key={'0a' * 32}", "under the name"),
        (f"Key: (private-key (ecc (curve Ed25519)(q\n  #40AAB5#)(d\n  #{'0A' * 32}#)))\n", "GnuPG"),
        (f"(protected-private-key (rsa (n #00{'AB' * 32}#)", "GnuPG"),
        (f"untrusted comment: minisign\n{b64(b'EdScB2' + bytes(98))}\n", "body"),
        (f"untrusted comment: signify\n{b64(b'EdBK' + bytes(98))}\n", "body"),
        (json.dumps(JWK), "JSON Web Key"), (json.dumps({"jwk": json.dumps(JWK)}), "JSON Web Key"), (repr(JWK), "JSON Web Key"),
        ("\n".join(f"{name}: {value}" for name, value in JWK.items()), "JSON Web Key"), (b64(json.dumps(JWK)), "JSON Web Key"),
        (f"<RSAKeyValue><Modulus>abc</Modulus><D>{'Bc4' * 60}</D></RSAKeyValue>", "RSAKeyValue"),
        (f"age-{'secret'}-key-1{'q' * 58}", "age"), (f"HOBUS-{'0A' * 32}", "bearer"),
        (f"-----BEGIN PGP {'PRIVATE'} KEY BLOCK-----\nComment: of Bob\n\nlFgE{VALUE}{VALUE[:16]}\n", "BEGIN"),
        (f"-----BEGIN RSA {'PRIVATE'} KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00FF\n\n{VALUE[:43]}{VALUE[:21]}\n", "BEGIN"),
        (f"-----BEGIN EC {'PRIVATE'} KEY-----\n{VALUE}\n-----END EC {'PRIVATE'} KEY-----\n", "BEGIN"),
        (f"-----BEGIN PGP {'PRIVATE'} KEY BLOCK-----\n\n{VALUE}\n=aB3d\n-----END PGP {'PRIVATE'} KEY BLOCK-----\n", "BEGIN"),
        (f"-----BEGIN RSA {'PRIVATE'} KEY-----\n{VALUE[:43] * 20}\n", "BEGIN"),
        (f"-----BEGIN RSA {'PRIVATE'} KEY-----{VALUE[:43] * 2}-----END RSA {'PRIVATE'} KEY-----\n", "BEGIN"),
        (f"K = \"-----BEGIN RSA {'PRIVATE'} KEY-----\\n\" +\n  \"{VALUE[:43]}{VALUE[:21]}\\n\" +\n", "BEGIN"),
        (f"{PAIR.secret.decode()}\n{PAIR.secret.decode()}\n", "CURVE"), (f"{VALUE}\n", "32 bytes"),
        ("\n".join(["0a" * 32] * 2), "32 bytes"), (f"0x{'0a' * 32}", "32 bytes"), (f"sk-{'x' * 20}\nsk-{'y' * 20}", "service"),
    ]
)  # fmt: skip
def test_a_key_is_known_by_what_a_program_writes_around_it(text, says):
    """And it is told by which rule."""
    rule = key_rule(text)
    assert rule is not None and says in rule.says and rule.mend


PRIVATE = "PRIVATE"
LONG_NAME = "AbstractSingletonProxyFactoryBeanConfigurationException"
JAVA_PATH = "com/example/project/module/AbstractProxyFactoryBean1"
SHA_512 = b64(hashlib.sha512(b"").digest())


@of_each(
    [
        f"A key begins with `-----BEGIN OPENSSH {PRIVATE} KEY-----` and ends with `-----END OPENSSH {PRIVATE} KEY-----`.\n",
        f"2. check that it starts with -----BEGIN RSA {PRIVATE} KEY-----\n3. upload\n",
        (f"tls:\n  key: |\n    -----BEGIN {PRIVATE} KEY-----\n    (redacted)\n    -----END {PRIVATE} KEY-----\n  crt: |\n"
        f"    -----BEGIN CERTIFICATE-----\n    {VALUE[:43]}{VALUE[:21]}\n    -----END CERTIFICATE-----\n"),
        f'if "-----BEGIN {PRIVATE} KEY-----" in text:\n    raise ValueError\n',
        f"MARK = '-----BEGIN RSA {PRIVATE} KEY-----'\nclass Foo(\n    {LONG_NAME}\n):\n    pass\n",
        f"MARK = '-----BEGIN RSA {PRIVATE} KEY-----'\n{LONG_NAME}\n",
        f"MARK = '-----BEGIN RSA {PRIVATE} KEY-----'\n{LONG_NAME}\nEND = '-----END RSA {PRIVATE} KEY-----'\n",
        f"It begins with BEGIN {PRIVATE} KEY; see\n{JAVA_PATH}\nand\n",
        f"-----BEGIN {PRIVATE} KEY-----\n\nsha512:\n{SHA_512}\n",
        f"-----BEGIN {PRIVATE} KEY-----\nis the first line.\n{VALUE[:43]}{VALUE[:21]}\n",
        f"-----BEGIN {PRIVATE} KEY-----\n{'X' * 64}\n-----END {PRIVATE} KEY-----\n",
        'A JWK has "kty": "EC" and a private one has "d": "base64url-of-the-secret".\n',
        '{"kty": "EC", "d": "YOUR_PRIVATE_EXPONENT_HERE", "k": "..."}', '{"kty": "EC", "fields": {"d": "the private exponent"}}',
        "https://example.com/a/b/c/d/e/f/g/h/i/jk\n", "https://Example.com/a?b=C&d=%20&e=1234567\n", "somebody.with.a.long.name.x@example.corp\n",
        "/usr/local/share/applications/foo/bar/ba\n", "/Volumes/Bob/Library/Application/hobus/9\n", "registry.example.com/team/app/image:1.2.\n",
        "a" * 41, "-" * 40, "-" * 72, "=" * 40, "0" * 64, "a" * 4_000, "595904CA37F28E82E0CD769353139ABB6189A45E\n", "pneumonoultramicroscopicsilicovolcanocon",
        f"sha256:{'0a' * 32}\n", f"{'0a' * 32}  hobus.tar.gz\n", f"sha256: {'0a' * 32}\n", "0a" * 64,
        "MIIEvQIBADANthisisjustalongwordofletterswithoutmeaning\n", "MIIBAgIB AAAA these are words of a text only\n",
        f"PublicKey = {VALUE}\n", f'public-key = "{PAIR.public.decode()}"\n', "PrivateKey = <put the key of your server here, 44 characters>\n",
        "private_key: /etc/ssl/private/a/long/path/to/the/key.of.the.server.pem\n", "secret_key=env:THE_NAME_OF_A_VARIABLE_THAT_HOLDS_THE_KEY\n",
        "(private-key (rsa (n ...)))", f"RSAKeyValue has <D> and {VALUE}", f"png: {b64(bytes(range(256)))}\n",
        "\\n \\u0041 \\\\ C:\\new\\text\n", "",
    ]
)  # fmt: skip
def test_a_text_about_keys_and_an_ordinary_word_of_a_keys_length_are_read(text):
    """A first line without a body, placeholders, addresses, paths, digests that say so, commits, public keys."""
    assert key_rule(text) is None


@pytest.mark.parametrize("kind", ["rsa", "ec", "ed25519"])
def test_public_parts_are_read(kind):
    """SubjectPublicKeyInfo in PEM and encoded once more, and a line of authorized_keys."""
    public = serialization.load_pem_private_key(pem(kind).encode(), None).public_key()
    text = public.public_bytes(PEM, serialization.PublicFormat.SubjectPublicKeyInfo).decode()
    line = public.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()
    for one in (text, b64(text), flat(text), line, f"{line} bob@example.com\n"):
        assert key_rule(one) is None


def test_every_key_of_curve_is_known():
    """However it was drawn: one in ten thousand has no sign that addresses have not, but then many different ones."""
    assert all(key_rule(curve.new_pair().secret.decode()) for _ in range(50))
    assert key_rule("aB3dE5gH7jK9mN1pQ4sT6vW8yZ2cX0fLuR/i.o-k") is not None


HOSTILE = [
    ("a" * 40, " ", "!"), ("a" * 40, " \n", "="), ("", "-eyJ", ""), ("", ".eyJ", ""), ("", "aaaaaaaaaa.eyJ", ""), ("eyJ", "a", ""),
    ("", "AGE-SECRET-KEY-A", ""), ("AGE-SECRET-KEY-", "A", ""), ("", f"-----BEGIN {PRIVATE} KEY", ""), ("BEGIN ", "PRIVATE KEY ", ""),
    ("", "BEGIN ", ""), ("BEGIN ", "A", ""), ("", "BEGIN PRIVATE KEY\n", ""), ("", f"BEGIN PRIVATE KEY {'aB3' * 14}\n", ""),
    ("", "hobus1", ""), ("", "hobus-0", ""), ("hobus-", "0", "g"), ('"kty"', " ", ""), ('"kty":', '"d":', ""), ("kty:", "d: aB3", ""),
    ("kty:d:", "a", ""), ("", "secret:", ""), ("", "private_key = ", ""), ("secret=", "aB3", ""), ("", "secret=aB3+", ""), ("secret", " ", ""),
    ("", "private_exponent:", ""), ("private_exponent:", " ", ""), ("private_exponent:", "00:", ""), ("", "(private-key", " "),
    ("(private-key (rsa ", "#", ""), ("(private-key (rsa ", "#0 ", ""), ("RSAKeyValue", "<D>", ""), ("RSAKeyValue<D>", " ", ""), ("RSAKeyValue<D>", "a", ""),
    ("", "Private-Lines: ", ""), ("", "\nPrivate-Lines: 1\n", ""), ("Private-Lines:", " ", ""), ("", "\\", ""), ("", "\\", "u00"), ("", "\\u00", ""),
    ("", "\\\\n", ""), ("", "-", ""), ("", "/", ""), ("", "a", ""), ("", "0", ""), ("", "MIIEowIBAAKCAQEA", ""), ("", "MIIEowIBAAKCAQEAMIIEowIB ", ""),
    ("", "0x", ""), ("", "LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0t\n", ""), ("", "QUJDREVGR0hJSktMTU5PUFFSU1RVVldY.", ""), ("", "Bearer ", ""),
    ("Bearer", " ", ""), ("", "sk-", ""), ("a", "+", "://"), ("a://", "b", ":"), ("a://b:", "c", ""), ("", "://a:b", ""), ("", "\u00a0", ""),
]  # fmt: skip


@pytest.mark.parametrize("finds", [key_rule, looks_secret])
def test_a_text_four_times_as_long_takes_about_four_times_as_long(finds):
    """Whoever wrote it: an executor that looks at a text does nothing else meanwhile."""
    assert [text for text in HOSTILE if not is_linear(finds, *text)] == []


@given(st.text())
def test_any_text_is_judged(text):
    """Nothing raises, whatever follows the escapes and looks like base64."""
    key_rule(text)
    key_rule(f"\\u00{text}" + "aB3+" * 10 + text)
