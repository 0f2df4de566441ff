"""The blood-cell pictures: find the nucleus in six steps, cut out 120 × 120 pixels around it, take the negative, flatten.

Each step is a small function on arrays; `steps` gives every intermediate picture, `load_crops` runs them over the whole archive and
keeps the result in the cache. Needs OpenCV (the extra `pictures`).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dualgap.core import needs
from dualgap.data import DataError, DataSet, data_cache, write_arrays
from dualgap.lab.studies.blood_cells import pca as pca_module
from dualgap.lab.studies.blood_cells.pca import PCA, fit_pca

__all__ = ["CELL_TYPES", "SIDE", "Steps", "decode", "feature", "load_crops", "members_digest", "picture_parts", "reduce", "steps"]

CELL_TYPES = ("LYMPHOCYTE", "NEUTROPHIL")
SIDE = 120  # of a crop, in pixels
BLUR = 7  # pixels; side of the blurring window
BLACK = 40  # of 255; a pixel below this in every channel is black
SPECK = 9  # pixels; narrower spots after thresholding are pepper noise
REACH = 60  # pixels; parts of one nucleus lie within this distance of the centre of the largest part


def _cv2() -> Any:
    try:
        import cv2
    except ImportError:
        raise DataError(needs("the picture pipeline", "opencv-python-headless")) from None
    return cv2


def decode(jpeg: bytes, name: str = "the picture") -> np.ndarray:
    """Return the pixels of a compressed picture, height × width × (blue, green, red), as OpenCV orders them."""
    picture = _cv2().imdecode(np.frombuffer(jpeg, dtype=np.uint8), 1) if jpeg else None
    if picture is None:
        raise DataError(f"{name} is not a readable picture")
    return picture


# ------------------------------------------------------------------------------------------------------------------ the six steps


def blur(picture: np.ndarray) -> np.ndarray:
    """Step 1: smooth the picture, so that noise and the texture of other cells fade."""
    return _cv2().GaussianBlur(picture, (BLUR, BLUR), 0)


def stain_grey(picture: np.ndarray) -> np.ndarray:
    """Step 2: reduce to one grey value a pixel, dark where the stain is: white − (blue − red).

    Plain luminance takes dark red cells for the nucleus in about one picture in thirteen; the stain is violet, and red cells are not.
    """
    return 255 - _cv2().subtract(picture[:, :, 0], picture[:, :, 2])


def luminance(picture: np.ndarray) -> np.ndarray:
    """Return the picture in the usual grey, as the crops show it."""
    return _cv2().cvtColor(picture, _cv2().COLOR_BGR2GRAY)


def frame_of(picture: np.ndarray) -> np.ndarray:
    """Return the mask of the black frame of a rotated picture: black pixels connected to the border, and their blurred rim."""
    cv2 = _cv2()
    black = (picture.max(axis=2) < BLACK).astype(np.uint8)
    _, labels = cv2.connectedComponents(black, connectivity=4)
    joined = np.zeros(labels.max() + 1, dtype=np.uint8)
    for edge in (labels[0], labels[-1], labels[:, 0], labels[:, -1]):
        joined[edge] = 1
    joined[0] = 0  # the label of what is not black
    return cv2.dilate(joined[labels], np.ones((BLUR + 2, BLUR + 2), dtype=np.uint8)) > 0


def neutralise(grey: np.ndarray, frame: np.ndarray) -> np.ndarray:
    """Step 3: give the pixels of the frame the mean of all others."""
    if frame.all():
        raise DataError("the picture is black all over")
    return np.where(frame, np.uint8(round(float(grey[~frame].mean()))), grey)


def threshold(grey: np.ndarray, frame: np.ndarray) -> np.ndarray:
    """Step 4: threshold to a mask of the nucleus: the dark side of Otsu's threshold, computed without the frame."""
    cv2 = _cv2()
    value, _ = cv2.threshold(grey[~frame].reshape(1, -1), 0, 255, cv2.THRESH_BINARY + cv2.THRESH_OTSU)
    return grey <= value


def open_mask(mask: np.ndarray) -> np.ndarray:
    """Step 5: remove pepper noise by a morphological opening, then specks that are far from the nucleus or tiny beside it."""
    cv2 = _cv2()
    window = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (SPECK, SPECK))
    opened = cv2.morphologyEx(mask.astype(np.uint8), cv2.MORPH_OPEN, window)
    count, labels, stats, centres = cv2.connectedComponentsWithStats(opened)
    if count == 1:  # nothing but background
        return opened > 0
    areas = stats[:, cv2.CC_STAT_AREA].astype(np.float64)
    areas[0] = 0.0
    largest = int(np.argmax(areas))
    near = np.hypot(*(centres - centres[largest]).T) <= REACH
    return (near & (areas >= 0.05 * areas[largest]) & (areas > 0))[labels]


def centre_of_mass(mask: np.ndarray) -> tuple[float, float]:
    """Step 6, first half: (row, column) in the middle of the nucleus; of the picture if there is no nucleus."""
    rows, columns = np.nonzero(mask)
    if not len(rows):
        return (mask.shape[0] - 1) / 2, (mask.shape[1] - 1) / 2
    return float(rows.mean()), float(columns.mean())


def crop(grey: np.ndarray, centre: tuple[float, float], fill: int, side: int = SIDE) -> np.ndarray:
    """Step 6, second half: `side` × `side` pixels around the centre; beyond the picture's border, `fill`."""
    window = np.full((side, side), fill, dtype=np.uint8)
    top, left = (round(c) - side // 2 for c in centre)
    y0, y1 = max(top, 0), min(top + side, grey.shape[0])
    x0, x1 = max(left, 0), min(left + side, grey.shape[1])
    if y0 < y1 and x0 < x1:
        window[y0 - top : y1 - top, x0 - left : x1 - left] = grey[y0:y1, x0:x1]
    return window


class Steps(NamedTuple):
    """Every picture on the way from a microscope picture to a row of the data set."""

    original: np.ndarray
    blurred: np.ndarray
    grey: np.ndarray
    neutral: np.ndarray
    nucleus: np.ndarray
    opened: np.ndarray
    centre: tuple[float, float]
    cropped: np.ndarray
    negative: np.ndarray  # the nucleus has the large values


def steps(picture: np.ndarray) -> Steps:
    """Run the pipeline on one picture and keep what each step makes, for a figure."""
    if picture.ndim != 3 or picture.shape[2] != 3 or picture.dtype != np.uint8:
        raise DataError(f"a picture must be height × width × 3 of uint8, not {picture.shape} of {picture.dtype}")
    frame = frame_of(picture)
    blurred = blur(picture)
    grey = stain_grey(blurred)
    neutral = neutralise(grey, frame)
    nucleus = threshold(neutral, frame)
    opened = open_mask(nucleus)
    centre = centre_of_mass(opened)
    shown = neutralise(luminance(picture), frame)
    cropped = crop(shown, centre, fill=round(float(shown[~frame].mean())))
    return Steps(picture, blurred, grey, neutral, _drawn(nucleus), _drawn(opened), centre, cropped, 255 - cropped)


def _drawn(mask: np.ndarray) -> np.ndarray:
    """Return a mask as a picture: white but for the nucleus."""
    return np.where(mask, np.uint8(0), np.uint8(255))


def feature(picture: np.ndarray) -> np.ndarray:
    """Return the 14,400 bytes that a picture becomes."""
    return steps(picture).negative.reshape(-1)


# ------------------------------------------------------------------------------------------------------------- the whole archive


def members_digest(path: str | os.PathLike[str]) -> str:
    """Return a digest of the jpegs that a zip holds under TRAIN and TEST: their places, sizes and CRCs, read from its directory alone.

    Only the last three parts of a path count (TRAIN/LYMPHOCYTE/name), so the folders that an archive is packed in do not matter.
    """
    with zipfile.ZipFile(path) as archive:
        infos = archive.infolist()
    lines = [f"{'/'.join(parts)} {info.file_size} {info.CRC:08x}" for info in infos if (parts := picture_parts(info.filename))]
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


def picture_parts(member: str) -> tuple[str, str, str] | None:
    """Return (TRAIN or TEST, cell type, file name) of a picture in the blood-cell archive; None for any other member."""
    parts = member.split("/")[-3:]
    if (
        len(parts) == 3
        and parts[0] in ("TRAIN", "TEST")
        and parts[1] in CELL_TYPES
        and parts[2].lower().endswith((".jpeg", ".jpg"))
    ):
        return parts[0], parts[1], parts[2]
    return None


def load_crops(path: str | os.PathLike[str], jobs: int = 2, white: float = 1.0) -> DataSet:
    """Return all pictures as rows of 14,400 pixels (float32, black 0 to `white`): TRAIN as X, TEST as X_test; neutrophil is +1.

    The crops are kept in the cache, under a name made from the archive's contents and this pipeline's source.
    """
    path = Path(path)
    try:
        digest = hashlib.sha256(members_digest(path).encode())
    except (zipfile.BadZipFile, OSError) as error:
        raise DataError(f"{path} is not a whole zip file: {error}") from None
    digest.update(Path(__file__).read_bytes())
    crops = _cached(f"blood-cells-{digest.hexdigest()[:20]}.npz", lambda: _crop_archive(path, jobs))
    X, X_test = (crops[part] * np.float32(white / 255) for part in ("TRAIN", "TEST"))
    return DataSet("blood-cells", X, crops["TRAIN_y"].astype(np.int64), X_test, crops["TEST_y"].astype(np.int64))


def _cached(name: str, make: Callable[[], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Return the arrays of a file in the cache; if it is absent or damaged, make them and keep them there."""
    cache = data_cache()
    if cache is None:
        return make()
    with (
        contextlib.suppress(zipfile.BadZipFile, ValueError, KeyError, OSError),
        open(cache / name, "rb") as stream,
        np.load(stream, allow_pickle=False) as archive,
    ):
        return dict(archive)
    arrays = make()
    with contextlib.suppress(OSError):  # a full or read-only disk: the next call makes them again
        write_arrays(cache / name, arrays)
    return arrays


def _crop_archive(path: Path, jobs: int) -> dict[str, np.ndarray]:
    """Return rows in the order of their names, so that the data do not depend on how the archive was packed."""
    with zipfile.ZipFile(path) as archive:
        members = [(parts, name) for name in archive.namelist() if (parts := picture_parts(name))]
    members.sort()
    parts_found = {part for (part, _, _), _ in members}
    if parts_found != {"TRAIN", "TEST"}:
        raise DataError(f"{path} must hold pictures under TRAIN and TEST, in the folders LYMPHOCYTE and NEUTROPHIL")
    pixels = np.empty((len(members), SIDE * SIDE), dtype=np.uint8)

    def work(first: int) -> None:
        # A reader of its own for each thread; decoding and OpenCV's steps run without Python's lock.
        with zipfile.ZipFile(path) as archive:
            for i in range(first, len(members), jobs):
                pixels[i] = feature(decode(archive.read(members[i][1]), members[i][1]))

    with ThreadPoolExecutor(max_workers=jobs) as pool:
        list(pool.map(work, range(jobs)))
    crops: dict[str, np.ndarray] = {}
    for part in ("TRAIN", "TEST"):
        rows = np.array([i for i, ((where, _, _), _) in enumerate(members) if where == part])
        crops[part] = pixels[rows]
        crops[f"{part}_y"] = np.array([1 if members[i][0][1] == "NEUTROPHIL" else -1 for i in rows], dtype=np.int8)
    return crops


def reduce(data: DataSet, n_components: int = 40, spectrum: int | None = None) -> tuple[DataSet, PCA]:
    """Return the data set in the principal components of its training part (centred), and the PCA itself for figures.

    `spectrum` is how many singular values to find besides; a thousand of them take several times as long as 40 components. Large PCAs
    are kept in the cache.
    """
    pca = _kept_pca(data.X, n_components, spectrum) if data.X.nbytes > KEEP_FROM else fit_pca(data.X, n_components, spectrum)
    X_test = pca.apply(data.X_test) if data.has_test else None
    return data.with_(X=pca.apply(data.X), X_test=X_test, feature_names=None), pca


KEEP_FROM = 1 << 26  # bytes; the PCA of larger data is cached, because it takes long


def _kept_pca(X: np.ndarray, n_components: int, spectrum: int | None) -> PCA:
    """Return a PCA from the cache, under a name made from the data, the numbers asked for and the source of the method."""
    digest = hashlib.blake2b(np.ascontiguousarray(X).data, digest_size=20)
    digest.update(f"{X.shape} {X.dtype} {n_components} {spectrum}".encode() + Path(pca_module.__file__).read_bytes())
    return PCA(**_cached(f"pca-{digest.hexdigest()}.npz", lambda: vars(fit_pca(X, n_components, spectrum))))
