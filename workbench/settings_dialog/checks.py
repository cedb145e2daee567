"""Typed folders, hosts, domains and files of certificates: what is taken, and the words for what is not."""

import re
import ssl
from pathlib import Path

from PySide6.QtCore import QCoreApplication

translate = QCoreApplication.translate

_NAME = r"(?:[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?)"
_HOST = re.compile(rf"(?:{_NAME}(?:\.{_NAME})*|\[[0-9A-Fa-f:.]+\])(?::([0-9]{{1,5}}))?")
_DOMAIN = re.compile(rf"@?{_NAME}(?:\.{_NAME})+")
_LARGEST_PORT = 65_535


def folder(text: str) -> str:
    """The whole path of a folder that is there; raises ValueError in words."""
    path = Path(text).expanduser()
    if not path.is_absolute():
        raise ValueError(_found(translate("settings", "Found “%1”, expected the whole path of a folder."), text))
    if not path.is_dir():
        raise ValueError(_found(translate("settings", "There is no folder “%1”."), text))
    return str(path)


def host(text: str) -> str:
    """A host name or address in lower case, perhaps with a port; raises ValueError in words."""
    found = _HOST.fullmatch(text)
    if not found or not _is_port(found[1]):
        raise ValueError(
            _found(translate("settings", "Found “%1”, expected a host such as example.org or a:8080."), text)
        )
    return text.lower()


def domain(text: str) -> str:
    """A mail domain in lower case; raises ValueError in words."""
    if not _DOMAIN.fullmatch(text):
        raise ValueError(_found(translate("settings", "Found “%1”, expected a domain such as example.org."), text))
    return text.lower().lstrip("@")


def proxy(text: str) -> str:
    """The address of a proxy, `http://` before it where that was left out; raises ValueError in words."""
    address = text if not text or "://" in text else f"http://{text}"
    plain = address.removeprefix("http://").removesuffix("/")
    found = _HOST.fullmatch(plain)
    if not address:
        return ""
    if address.startswith("http://") and "@" not in plain and found and _is_port(found[1]):
        return f"http://{plain}"
    fault = translate("settings", "Found “%1”, expected http://host:port, without user and password.")
    raise ValueError(_found(fault, _without_password(text)))


def ca_file(text: str) -> str:
    """The whole path of a PEM file with certificates; raises ValueError in words."""
    if not text:
        return ""
    path = Path(text).expanduser()
    if not path.is_absolute():
        raise ValueError(_found(translate("settings", "Found “%1”, expected the whole path of a file."), text))
    if not path.is_file():
        raise ValueError(_found(translate("settings", "There is no file “%1”."), text))
    certificate_count(path)
    return str(path)


def certificate_count(path: Path) -> int:
    """How many certificates a PEM file has; raises ValueError in words when none can be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(path)
    except ssl.SSLError:
        text = translate("settings", "“%1” holds no certificate in PEM format (-----BEGIN CERTIFICATE-----).")
        raise ValueError(_found(text, path.name)) from None
    except OSError as error:
        text = translate("settings", "“%1” cannot be read: %2.").replace("%2", error.strerror or str(error))
        raise ValueError(_found(text, path.name)) from None
    return context.cert_store_stats()["x509"]


def _is_port(text: str | None) -> bool:
    return text is None or 1 <= int(text) <= _LARGEST_PORT


def _without_password(text: str) -> str:
    return re.sub(r"(?<=//)[^@/]*@|^[^@/]*@", "***@", text)


def _found(fault: str, text: str) -> str:
    return fault.replace("%1", text[:200])
