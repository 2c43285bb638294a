"""Sending files so that no browser runs them: always an attachment of unknown kind, whatever the name says."""

from urllib.parse import quote

from falaj.base.operation import Download


def attachment(download: Download) -> dict[str, str]:
    """The headers of a file. The plain name is for old programs and holds only what needs no quoting."""
    name = download.name.rpartition("/")[2]
    plain = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "._-") else "_" for letter in name)
    headers = {
        "content-type": "application/octet-stream",
        "content-disposition": f"attachment; filename=\"{plain or 'file'}\"; filename*=UTF-8''{quote(name, safe='')}",
        "x-content-type-options": "nosniff",
    }
    return headers | ({"content-length": str(download.size)} if download.size is not None else {})
