"""Runs in a job's pod before the job does: gets the job's files from the platform, with the job's token, and unpacks them.

It is handed to an interpreter as text, and needs nothing but the standard library.
"""

import os
import ssl
import sys
import tarfile
import urllib.request


def main() -> None:
    folder, url, token = os.environ["FALAJ_SOURCE_FOLDER"], os.environ["FALAJ_SOURCE"], os.environ["FALAJ_TOKEN"]
    trusted = ssl.create_default_context()
    if authorities := os.environ.get("FALAJ_CA"):
        trusted.load_verify_locations(authorities)
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    # No proxy of the image's: the platform is reached directly, or not at all.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trusted))
    with opener.open(request, timeout=60) as answer, tarfile.open(fileobj=answer, mode="r|*") as tar:
        for entry in tar:
            place = os.path.realpath(os.path.join(folder, entry.name))  # noqa: PTH118 - no more imports than needed
            if not (place + os.sep).startswith(os.path.realpath(folder) + os.sep) or not (entry.isfile() or entry.isdir()):
                raise ValueError(f"{entry.name!r} is no file or folder of its own")
            entry.mode = (entry.mode & 0o755) | (0o700 if entry.isdir() else 0o600)
            entry.uid, entry.gid, entry.uname, entry.gname = os.getuid(), os.getgid(), "", ""
            tar.extract(entry, folder)


if __name__ == "__main__":
    try:
        main()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is said
        sys.exit(f"its source cannot be had from the platform: {type(error).__name__}: {error}")
