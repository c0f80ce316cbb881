"""What the dispatcher tells a worker: which run to claim, where, and with which token. Ids only, never the work itself.

The row in the database is the truth; a lost, doubled or late message does no harm. Fields that this version does not
know are ignored, so that web and workers can be deployed one after the other.
"""

from __future__ import annotations

import re
from typing import Annotated, Any
from uuid import UUID

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, HttpUrl, SecretStr

MIN_TOKEN_CHARACTERS = 32
TASK = "fuseworks.run"
# What both sides of the broker must say alike: a target that one takes and the other refuses would wait for ever.
TARGET = re.compile(r"cpu|cuda:sm_[0-9]{2,3}[a-z]?|rocm:gfx[0-9a-f]{3,5}")
TRANSPORT: dict[str, Any] = {
    "visibility_timeout": 6 * 3600,
    "socket_timeout": 30,
    "socket_connect_timeout": 2,
    "socket_keepalive": True,
    "health_check_interval": 10,
}


def queue_of(target: str) -> str:
    """The queue's name on the broker: the dispatcher sends to it, workers of the target listen on it."""
    return f"fuseworks.{target}"


def _no_secrets_inside(address: HttpUrl) -> HttpUrl:
    """Addresses are logged; a user name, a password or a query in one would be logged too."""
    if address.username or address.password or address.query or address.fragment:
        raise ValueError("an API address carries no user, password, query or fragment")
    return address


class RunMessage(BaseModel):
    """One attempt at one run. The token is good for this attempt alone and never printed."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    run_id: UUID
    attempt: int = Field(ge=1, description="fencing counter: a stale attempt's posts are refused")
    api: Annotated[HttpUrl, AfterValidator(_no_secrets_inside)]
    token: SecretStr = Field(min_length=MIN_TOKEN_CHARACTERS)

    def wire(self) -> dict[str, str | int]:
        """The message as JSON carries it, token included: for the broker only."""
        return {
            "run_id": str(self.run_id),
            "attempt": self.attempt,
            "api": str(self.api),
            "token": self.token.get_secret_value(),
        }
