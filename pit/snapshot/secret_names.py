"""Names of untracked files that usually hold a secret; they are left out unless `--include` names them."""

import fnmatch
from collections.abc import Sequence

SECRET_NAMES = (
    *(".env", ".env.*", "*.env", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.kdbx", "*.ppk"),
    *("id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", ".netrc", ".pgpass", ".pypirc", ".git-credentials"),
    *("credentials", "credentials.json", ".htpasswd", ".pituser.txt", "*.ovpn"),
    *(".npmrc", "kubeconfig", "secrets.yaml", "secrets.yml", "secrets.json", "service-account*.json"),
)
HARMLESS_NAMES = (".env.example", ".env.sample", ".env.template", ".env.dist")


def looks_secret(path: str, include: Sequence[str]) -> bool:
    """Whether the file's name suggests a secret, and no pattern in `include` names the file."""
    if any(is_included(path, pattern) for pattern in include):
        return False
    name = path.rpartition("/")[2].lower()
    return name not in HARMLESS_NAMES and any(fnmatch.fnmatchcase(name, pattern) for pattern in SECRET_NAMES)


def is_included(path: str, pattern: str) -> bool:
    """Whether `--include` names this file, by its name or by a pattern for its path."""
    return fnmatch.fnmatchcase(path, pattern) or pattern == path.rpartition("/")[2]
