"""From what the HTTP library raised to the typed error a person can act on."""

import ssl
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from engine.clients.addresses import is_loopback
from engine.clients.failures import Place
from engine.errors import AnswerIncomplete, ConnectFailed, ProtocolError, RequestError, RequestTimeout

if TYPE_CHECKING:
    import aiohttp

Failed = TypeVar("Failed", bound=RequestError)

START_COMMANDS = {11434: "ollama serve", 1234: "lms server start", 8080: "llama-server -m MODEL.gguf"}
"""How to start the server that usually listens on a port."""


def timeout(limit: str, place: Place) -> RequestTimeout:
    """The error for a limit that passed."""
    reasons = {
        "connect": ("did not accept a connection within connectTimeout", "Check that the server runs and is reachable"),
        "first_token": ("wrote no text for longer than firstTokenTimeout", "A slow model needs a higher limit"),
        "idle": ("sent nothing for longer than idleTimeout", "The server or the network hangs"),
        "total": ("did not finish within the total time limit", "Raise timeout or totalTimeout"),
    }
    what, hint = reasons[limit]
    return RequestTimeout(
        f"{place.host} {what}.", hint=f"{hint} (profile {place.profile}).", facts=place.facts(limit=limit)
    )


def fault(error: Exception, place: Place, *, answering: bool) -> RequestError:
    """The typed error for what the HTTP library raised, before the head of the answer or while its body arrives."""
    import aiohttp
    import httpx

    cause: BaseException = error
    while cause.__cause__ is not None and not isinstance(cause, aiohttp.ClientError | OSError):
        cause = cause.__cause__
    if isinstance(cause, ssl.SSLError | aiohttp.ClientSSLError):
        return _tls_fault(cause, place)
    if isinstance(cause, aiohttp.ClientProxyConnectionError | aiohttp.ClientHttpProxyError):
        return _no_proxy(cause, place)
    if isinstance(cause, aiohttp.ClientConnectorError):
        return _no_connection(cause, place)
    if isinstance(cause, aiohttp.InvalidURL | httpx.InvalidURL):
        return no_address(place)
    details = place.facts(reason=str(error)[:300])
    if isinstance(cause, aiohttp.ClientPayloadError) or (
        answering and isinstance(cause, aiohttp.ClientConnectionError)
    ):
        return AnswerIncomplete(
            f"The connection to {place.host} broke off in the middle of the answer.",
            hint="The server or the network broke off; try again.",
            facts=details,
        )
    if isinstance(cause, aiohttp.ClientConnectionError | OSError):
        return ConnectFailed(
            f"{place.host} closed the connection without an answer.",
            hint="Try again; if it stays, the server's own log says why it hangs up.",
            facts=details,
        )
    return ProtocolError(
        f"What {place.host} sent is no valid HTTP answer.",
        hint=f"Check that the url of the profile {place.profile} is that of a model server.",
        facts=details | {"expected": "an HTTP/1.1 answer"},
    )


def _no_connection(error: "aiohttp.ClientConnectorError", place: Place) -> ConnectFailed:
    import aiohttp

    details = place.facts(reason=str(error)[:300])
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return ConnectFailed(
            f"The host {urlsplit(place.url).hostname} is unknown.",
            hint=f"Check url in the profile {place.profile} and the network connection.",
            facts=details,
        )
    if isinstance(error.os_error, PermissionError):
        return refused(place, str(error.os_error.strerror))
    command = START_COMMANDS.get(urlsplit(place.url).port or 0)
    if command and is_loopback(urlsplit(place.url).hostname or ""):
        hint = f"Start it, usually with `{command}`, or correct url in the profile {place.profile}."
    else:
        hint = f"Start the server, or correct url in the profile {place.profile}."
    return ConnectFailed(f"No server answers at {place.host}.", hint=hint, facts=details)


def _no_proxy(error: Exception, place: Place) -> ConnectFailed:
    return ConnectFailed(
        f"The proxy does not lead to {place.host}.",
        hint="Check that it runs, and the setting proxy.",
        facts=place.facts(reason=str(error)[:300]),
    )


def _tls_fault(error: BaseException, place: Place) -> ConnectFailed:
    reason = str(error)
    if "WRONG_VERSION_NUMBER" in reason or "record layer failure" in reason:
        message, hint = (
            f"{place.host} does not speak https.",
            f"Write http:// in the url of the profile {place.profile}.",
        )
    else:
        message = f"The certificate of {place.host} cannot be trusted."
        hint = (
            "Check the host name in the url; a certificate is never accepted unverified. "
            "One of your own organisation can be trusted with a CA file in the settings, or with caFile in the profile "
            f"{place.profile}."
        )
    return final(ConnectFailed(message, hint=hint, facts=place.facts(reason=reason[:300])))


def unusable_certificates(error: OSError, place: Place) -> ConnectFailed:
    """The error for a file of certificates, the error's `filename`, that cannot be read or has none."""
    where = (
        f"caFile in the profile {place.profile}" if error.filename == place.ca_file else "the CA file in the settings"
    )
    reason = (
        "it holds no certificate in PEM format" if isinstance(error, ssl.SSLError) else error.strerror or str(error)
    )
    return final(
        ConnectFailed(
            f"The certificates in {error.filename} cannot be used: {reason}.",
            hint=f"Correct {where}: it names a file in PEM format.",
            facts=place.facts(),
        )
    )


def refused(place: Place, reason: str) -> ConnectFailed:
    """The error for a host that is not asked."""
    return final(
        ConnectFailed(
            f"The host {urlsplit(place.url).hostname} is not asked: {reason}.",
            hint="Name a host whose addresses may be asked.",
            facts=place.facts(reason=reason[:300]),
        )
    )


def no_address(place: Place) -> ConnectFailed:
    """The error for an address nothing can be sent to."""
    return final(
        ConnectFailed(
            f"{place.url or 'An empty text'} is no http or https address.",
            hint=f"Correct url in the profile {place.profile}.",
            facts=place.facts(),
        )
    )


def final(error: Failed) -> Failed:
    """An error after which the same request would fail again."""
    error.retryable = False
    return error
