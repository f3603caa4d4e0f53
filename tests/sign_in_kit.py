"""A team's sign-in on loopback: a real OpenID Connect server, and the app configured for it."""

from contextlib import contextmanager
from pathlib import Path

from oidc_provider_mock import User, run_server_in_thread

SECRETS = """\
[auth]
redirect_uri = "{url}/oauth2callback"
cookie_secret = "a-secret-of-the-tests-that-is-long-enough"
client_id = "memory-inspector"
client_secret = "of-no-use"
server_metadata_url = "http://localhost:{port}/.well-known/openid-configuration"
expose_tokens = "access"

[auth.client_kwargs]
prompt = "login"

[memory_inspector]
{settings}
"""


def person(name, tenant, role, **more):
    """A user of the sign-in server with the claims that say tenant and role."""
    email = f"{name.lower()}@{tenant}.test"
    claims = {"name": name, "email": email, "email_verified": True, "org": tenant, "role": role, **more}
    return User(sub=email, claims={name: value for name, value in claims.items() if value is not None})


@contextmanager
def sign_in_server(*people):
    """Run the server with these people; yields its port."""
    with run_server_in_thread(user_claims=people) as server:
        yield server.server_port


def write_secrets(home, url, port, settings=""):
    """Write the app's secrets into a folder; return the file, for Streamlit's option `secrets.files`."""
    file = Path(home) / "secrets.toml"
    file.write_text(SECRETS.format(url=url, port=port, settings=settings), encoding="utf-8")
    return file
