"""What a test knows about a value and its type does not say."""

from typing import Any, TypeVar

T = TypeVar("T")


def there(value: T | None) -> T:
    assert value is not None, "nothing is there"
    return value


def untyped(value: object) -> Any:
    """A value without its type: a stand-in, something wrong on purpose, or something a test knows more about."""
    return value
