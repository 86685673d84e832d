"""Defines the settings of the identity of telemetry: which records are accepted, and the files of secrets and keys."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict

from streams.wire.errors import Misconfigured

if TYPE_CHECKING:
    from streams.wire.identity import MacSigner, MacVerifier


class IdentitySettings(BaseModel):
    """Settings of `[identity]`: the MACs of telemetry (docs/security.md)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    mode: Literal["off", "observe", "require"] = "off"
    """`off`: MACs are not verified; `observe`: records without a valid MAC are counted; `require`: they are refused."""
    secret_file: Path | None = None
    """The file of the fabric's secrets (`railsight key secret`), for `measure`, `decide` and `persist` only."""
    key_file: Path | None = None
    """The file of the collector's keys (`railsight key issue`), one a line; it is read again when it changes."""

    def verifier(self) -> "MacVerifier | None":
        """Return the verifier of telemetry; None in the mode `off`; raises Misconfigured."""
        if self.mode == "off":
            return None
        from streams.wire.identity import MacVerifier

        return MacVerifier(self._secrets_path(), is_required=self.mode == "require")

    def decide_signer(self) -> "MacSigner | None":
        """Return the signer of the requests of `decide`; None in the mode `off`; raises Misconfigured."""
        if self.mode == "off":
            return None
        from streams.wire.identity import DECIDE, MacSigner, read_secrets

        return MacSigner([read_secrets(self._secrets_path())[0].key_of(DECIDE)])

    def _secrets_path(self) -> Path:
        if self.secret_file is None:
            raise Misconfigured(f"identity.secret_file: required with identity.mode = {self.mode}, and not set")
        return self.secret_file
