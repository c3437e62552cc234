"""A software bill of materials of the environment that runs this, as CycloneDX 1.5 JSON on the standard output.

    python deploy/sbom.py > build/colonnade.cdx.json

Every installed distribution is a component with its version, licence and package URL; what `colonnade` with its extra
`flare` needs, directly or not, is what depends on it.
"""

from __future__ import annotations

import json
import re
import sys
from importlib.metadata import Distribution, distributions


def name_of(found: Distribution) -> str:
    """A distribution's name as package URLs have it."""
    return re.sub(r"[-_.]+", "-", found.metadata["Name"]).lower()


def component(found: Distribution) -> dict[str, object]:
    """One distribution as a component."""
    name, version = name_of(found), found.version
    url = f"pkg:pypi/{name}@{version}"
    facts: dict[str, object] = {
        "type": "library",
        "bom-ref": url,
        "name": name,
        "version": version,
        "purl": url,
    }
    said = found.metadata
    licence = next((said[key] for key in ("License-Expression", "License") if key in said), None)
    if licence and len(licence) < 100:
        facts["licenses"] = [{"license": {"name": licence.strip()}}]
    return facts


def needed(found: Distribution) -> set[str]:
    """The names of what a distribution needs without extras."""
    wanted = [line for line in found.requires or [] if "extra ==" not in line]
    return {re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", line, maxsplit=1)[0]).lower() for line in wanted}


def bill() -> dict[str, object]:
    """The whole bill."""
    installed = {name_of(found): found for found in distributions()}
    urls = {name: f"pkg:pypi/{name}@{found.version}" for name, found in installed.items()}
    own = installed.pop("colonnade", None)
    version = own.version if own is not None else "0"
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "colonnade", "version": version}},
        "components": [component(installed[name]) for name in sorted(installed)],
        "dependencies": [
            {
                "ref": urls[name],
                "dependsOn": sorted(urls[other] for other in needed(found) if other in urls),
            }
            for name, found in sorted(installed.items())
        ],
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(bill(), indent=1) + "\n")
