"""The client of partners' exchange servers: what this participant asks of others over HTTPS."""

import sys
from types import ModuleType

# httpx has a command of its own, whose libraries (Airflow has them installed) take longer to import
# than httpx. Without a `main` in this module, httpx does as where they are missing.
sys.modules.setdefault("httpx._main", ModuleType("httpx._main"))
