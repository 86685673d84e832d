"""Defines ClickHouse's errors: code, name, message, and the HTTP status of a code."""

import re

# From ClickHouse's src/Server/HTTP/exceptionCodeToHTTPStatus.cpp; other codes have status 500.
_STATUS = {
    400: (6, 8, 15, 25, 26, 27, 36, 37, 38, 41, 44, 53, 62, 72, 117, 123, 167, 168, 223, 321, 376, 427, 441, 675, 676),
    401: (194,),
    403: (192, 193, 497, 512, 516),
    404: (46, 47, 50, 56, 60, 63, 73, 78, 81, 115, 152, 336, 511),
    408: (159,),
    411: (381,),
    413: (229,),
    415: (779,),
    501: (48,),
    503: (76, 209, 439),
}
_STATUS_OF = {code: status for status, codes in _STATUS.items() for code in codes}
_CODE = re.compile(r"Code:\s*(\d+)\.\s*")


class ClickHouseError(Exception):
    """An error with ClickHouse's code; `message` is the text for the client, one or more lines."""

    def __init__(self, code: int, name: str, message: str) -> None:
        super().__init__(code, name, message)
        self.code = code
        self.name = name
        self.message = message

    def __str__(self) -> str:
        return f"Code: {self.code}. DB::Exception: {self.message}. ({self.name})"

    @property
    def status(self) -> int:
        """The HTTP status of the code."""
        return _STATUS_OF.get(self.code, 500)


class EngineError(ClickHouseError):
    """An error with the engine's message, which already has code and name; `raw` is all that the library reports."""

    def __init__(self, code: int, name: str, message: str, raw: str) -> None:
        super().__init__(code, name, message)
        self.raw = raw

    def __str__(self) -> str:
        return self.message


def from_engine(text: str) -> EngineError:
    """Return the error of an engine's message; its code is 1002 (UNKNOWN_EXCEPTION) if the message has none."""
    found = _CODE.search(text)
    if found is None:
        return EngineError(1002, "UNKNOWN_EXCEPTION", f"Code: 1002. DB::Exception: {text}. (UNKNOWN_EXCEPTION)", text)
    return EngineError(int(found[1]), "", text[found.start() :], text)


def format_error(error: ClickHouseError, version: str) -> str:
    """Return the error in the server's format, which ends in the version (once) and a line break."""
    text = re.sub(r" \(version [^()]*(\([^()]*\))?\)(?=\. \(\w+\)$|$)", "", str(error).strip())
    return f"{text} (version {version} (official build))\n"
