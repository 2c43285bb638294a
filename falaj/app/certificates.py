"""A self-signed certificate, for those who ask for TLS before they have one of their own."""

import ipaddress
import os
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

LIFE = timedelta(days=365)


def self_signed(directory: Path, hosts: list[str]) -> tuple[Path, Path]:
    """Certificate and key for these hosts, made on the first call and again when it has expired."""
    certificate, private_key = directory / "certificate.pem", directory / "private_key.pem"
    if certificate.exists() and private_key.exists():
        known = x509.load_pem_x509_certificate(certificate.read_bytes())
        if known.not_valid_after_utc > datetime.now(UTC) + timedelta(days=7):
            return certificate, private_key
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Falaj, self-signed")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + LIFE)
        .add_extension(
            x509.SubjectAlternativeName([_general_name(host) for host in {*hosts, socket.gethostname()}]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    descriptor = os.open(private_key, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    certificate.write_bytes(made.public_bytes(Encoding.PEM))
    return certificate, private_key


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
