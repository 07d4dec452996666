"""Files that people or programs write as JSON or YAML. JSON is tried first: YAML takes long to import."""

import json
from typing import Any


def parse(text: str) -> Any:
    """Raises ValueError with the place of the mistake."""
    try:
        return json.loads(text)
    except ValueError:
        pass
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
