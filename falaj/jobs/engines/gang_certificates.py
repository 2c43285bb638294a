"""Certificates by which the tasks of one attempt know each other when they talk across hosts: an authority that signs once."""

from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

_UNBOUNDED = timedelta(days=3650)  # of a job that may run for ever
_SLACK = timedelta(days=1)


def gang_certificates(attempt: str, seconds: int) -> tuple[str, str, str]:
    """Certificate, private key and authority as PEM. The authority's own key is gone when this returns."""
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    life = timedelta(seconds=seconds) + _SLACK if seconds else _UNBOUNDED
    authority_name, name = _name(f"tasks of {attempt}"), _name(attempt)
    authority = _signed(authority_name, authority_name, authority_key, authority_key, life, is_authority=True)
    certificate = _signed(name, authority_name, key, authority_key, life, is_authority=False)
    return (
        certificate.public_bytes(Encoding.PEM).decode(),
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(),
        authority.public_bytes(Encoding.PEM).decode(),
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _signed(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    by: ec.EllipticCurvePrivateKey,
    life: timedelta,
    *,
    is_authority: bool,
) -> x509.Certificate:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + life)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=0 if is_authority else None), critical=True)
        .sign(by, hashes.SHA256())
    )
