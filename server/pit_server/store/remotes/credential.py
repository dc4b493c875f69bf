"""A user's credential for a private remote; never shown, never passed as an argument."""

from dataclasses import dataclass, field

KEY_BEGINS = "-----BEGIN"
ANY_USER = "oauth2"  # user name that hosts accept with a token


@dataclass(frozen=True)
class Credential:
    """A token (with or without a user name) for https, or a private key for ssh."""

    secret: str = field(repr=False)

    @property
    def is_key(self) -> bool:
        return self.secret.startswith(KEY_BEGINS)

    @property
    def login(self) -> tuple[str, str]:
        """User name and password."""
        user, colon, token = self.secret.partition(":")
        return (user, token) if colon else (ANY_USER, self.secret)

    def suits(self, protocol: str) -> bool:
        return self.is_key if protocol == "ssh" else protocol in ("https", "http") and not self.is_key
