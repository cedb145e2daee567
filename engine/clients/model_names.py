"""The models a server lists, and which of them answers for a profile that names none."""

import logging

import msgspec

from engine.clients.attempt import MAX_BODY, MAX_ERROR_BODY
from engine.clients.base import Client
from engine.clients.failures import Place, status_error, unexpected_type
from engine.clients.transport import Transport
from engine.clients.watchdog import Limits
from engine.errors import RequestError
from engine.profile import ModelProfile

log = logging.getLogger(__name__)


class ModelNames:
    """Lists of models, remembered once a server lists something; failures are not."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._known: dict[tuple[str, str, str], tuple[str, ...]] = {}
        """By category, url and key of the profile."""

    async def listed(self, client: Client, profile: ModelProfile, *, force_reload: bool = False) -> list[str]:
        """What the server lists; raises RequestError."""
        key = (profile.category, profile.url, profile.api_key)
        if force_reload or not self._known.get(key):
            self._known[key] = tuple(await self._ask(client, profile))
        return list(self._known[key])

    async def _ask(self, client: Client, profile: ModelProfile) -> list[str]:
        url, headers = client.models_request(profile)
        place = Place.of(profile, url)
        seconds = profile.options.connect_timeout
        limits = Limits(connect=seconds, progress=seconds, idle=seconds)
        status, body, _ = await self._transport.fetch(
            url, headers=headers, place=place, limits=limits, limit=MAX_BODY, outlives=True
        )
        if status != 200:
            raise status_error(status, {}, body[:MAX_ERROR_BODY], place)
        try:
            return client.model_ids(msgspec.json.decode(body))
        except (msgspec.MsgspecError, RecursionError) as error:
            raise unexpected_type("something else", body, place) from error

    async def chosen(self, client: Client, profile: ModelProfile) -> str:
        """The profile's model, else the first one the server lists, else nothing."""
        if profile.model.strip():
            return profile.model
        try:
            names = await self.listed(client, profile)
        except RequestError as error:
            log.info("models of %s cannot be listed: %s", profile.name, error)
            return ""
        return names[0] if names else ""
