"""Text of PDF files. For the worker: a PDF can hang or fill whatever reads it."""

from io import BytesIO
from typing import TYPE_CHECKING

from ...safety.errors import Code, ToolError

if TYPE_CHECKING:
    from pypdf import PageObject, PdfReader

MAX_CHARACTERS = 2_000_000
"""Text that is extracted from one file: some 700 pages of print, and far more than any answer holds."""

UNREADABLE = "(this page cannot be read)"


def extract(data: bytes, max_chars: int = MAX_CHARACTERS) -> list[str]:
    """Return the text of each page of a PDF, pages without text included.

    Stops after max_chars characters, which the last page then says. Raises ToolError:
    binary_file for a file that needs a password, is damaged or holds no text, unavailable
    where pypdf is missing.
    """
    try:
        from pypdf import PdfReader
    except ImportError:
        raise ToolError(Code.UNAVAILABLE, "no PDF reader is installed", "install pypdf") from None
    try:
        reader = PdfReader(BytesIO(data))
        locked = reader.is_encrypted and not _opened(reader)
        pages = [] if locked else _pages(reader, max_chars)
    except MemoryError:
        raise
    except Exception as e:
        # On damaged files pypdf raises its own errors, and KeyError, AttributeError, RecursionError and more.
        raise _no_text("the PDF is damaged and cannot be read") from e
    if locked:
        raise _no_text("the PDF is encrypted and needs a password")
    if not any(page.strip() for page in pages if page != UNREADABLE):
        raise _no_text("no text can be extracted from the PDF")
    return pages


def _opened(reader: "PdfReader") -> bool:
    """Try the empty password, which files that only forbid printing have."""
    from pypdf.errors import DependencyError

    try:
        return bool(reader.decrypt(""))
    except DependencyError:
        return False


def _pages(reader: "PdfReader", max_chars: int) -> list[str]:
    pages: list[str] = []
    left = max_chars
    for page in reader.pages:
        text = _text(page)
        if len(text) > left:
            pages.append(f"{text[:left]}\n... (text cut at {max_chars} characters)")
            break
        pages.append(text)
        left -= len(text)
    return pages


def _text(page: "PageObject") -> str:
    try:
        return page.extract_text()
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - one broken page should not hide the others
        return UNREADABLE


def _no_text(sentence: str) -> ToolError:
    return ToolError(Code.BINARY_FILE, sentence, 'encoding="binary" returns the file itself')
