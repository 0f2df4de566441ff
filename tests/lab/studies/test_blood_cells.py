"""The blood-cell pipeline on drawn pictures: off-centre, framed, noisy, cut off; the archive; and a few real cells."""

import zipfile

import numpy as np
import pytest
from sklearn.svm import LinearSVC

from dualgap.data import DataError
from dualgap.lab import load
from dualgap.lab.studies.blood_cells import pictures as images
from dualgap.lab.studies.blood_cells.drawn_cells import BACKGROUND, CYTOPLASM, NUCLEUS, RED_CELL, draw_cell

cv2 = pytest.importorskip("cv2", reason="OpenCV is not installed: pip install opencv-python-headless")
HEIGHT, WIDTH = 240, 320


def scene(centre=(160, 120), radius=28, frame=False, noise=0.0, platelets=(), red_cells=((60, 60), (260, 60), (80, 200))):
    """A picture with one round nucleus at centre = (x, y)."""
    picture = np.full((HEIGHT, WIDTH, 3), BACKGROUND, dtype=np.uint8)
    for place in red_cells:
        cv2.circle(picture, place, 24, RED_CELL, -1)
    for place in platelets:
        cv2.circle(picture, place, 3, NUCLEUS, -1)
    cv2.circle(picture, centre, radius + 10, CYTOPLASM, -1)
    cv2.circle(picture, centre, radius, NUCLEUS, -1)
    if noise:
        picture = np.clip(picture + np.random.default_rng(0).normal(0, noise, picture.shape), 0, 255).astype(np.uint8)
    if frame:  # a black wedge along two sides, and a band
        cv2.fillPoly(picture, [np.array([[0, 0], [90, 0], [0, 239]])], (0, 0, 0))
        picture[-15:] = 0
    return picture


def assert_centred(picture, centre, tolerance=2.0):
    row, column = images.steps(picture).centre
    assert np.hypot(column - centre[0], row - centre[1]) <= tolerance


@pytest.mark.parametrize("centre", [(160, 120), (60, 50), (280, 190), (250, 60)])
@pytest.mark.parametrize("options", [{}, {"frame": True}, {"noise": 12.0}, {"frame": True, "noise": 12.0}])
def test_the_nucleus_is_found(centre, options):
    if options.get("frame") and centre == (60, 50):
        centre = (130, 70)  # elsewhere the frame would cover it
    assert_centred(scene(centre, **options), centre)


def test_platelets_are_pepper_noise():
    places = [(20, 20), (300, 20), (300, 220), (20, 220), (200, 30), (110, 110)]
    picture = scene((200, 140), platelets=places)
    steps = images.steps(picture)
    assert all(steps.nucleus[y, x] == 0 for x, y in places)  # dark after the threshold …
    assert all(steps.opened[y, x] == 255 for x, y in places)  # … and gone after the opening
    assert_centred(picture, (200, 140))


def test_dark_red_cells_are_not_taken_for_a_nucleus():
    """They are darker than the nucleus in plain grey; the stain tells them apart."""
    picture = scene((250, 180), radius=20, red_cells=())
    cv2.circle(picture, (80, 80), 40, (60, 60, 120), -1)
    grey = images.luminance(picture)
    assert grey[80, 80] < grey[180, 250]
    assert_centred(picture, (250, 180))


def test_separate_lobes_count_together():
    picture = np.full((HEIGHT, WIDTH, 3), BACKGROUND, dtype=np.uint8)
    for x, y in ((140, 100), (180, 100), (160, 140)):
        cv2.circle(picture, (x, y), 14, NUCLEUS, -1)
    assert_centred(picture, (160, 113.3))


def test_a_cell_at_the_border_is_padded_with_the_mean():
    picture = scene((2, 120))
    steps = images.steps(picture)
    assert steps.cropped.shape == (120, 120)
    beyond = steps.cropped[:, : 60 - round(steps.centre[1])]
    assert beyond.shape[1] > 40
    grey = images.luminance(picture)
    assert (beyond == round(float(grey.mean()))).all()


def test_frames_leave_no_black_in_the_crop():
    steps = images.steps(scene((130, 70), frame=True))
    assert 0.19 < images.frame_of(scene(frame=True)).mean() < 0.26  # a fifth, and the rim
    assert not images.frame_of(scene()).any()
    grey = images.luminance(scene((130, 70), frame=True))
    assert grey[70 - 60 : 70 + 60, 130 - 60 : 130 + 60].min() == 0  # the frame does reach into the window
    assert steps.cropped.min() > 60


def test_dark_spots_inside_are_no_frame():
    picture = scene()
    picture[50:60, 200:210] = 0
    assert not images.frame_of(picture)[50:60, 200:210].any()


def test_steps_are_what_their_names_say():
    picture = scene(noise=10.0)
    steps = images.steps(picture)
    assert steps.original is picture
    assert steps.blurred.std() < picture.std()
    assert steps.grey.shape == (HEIGHT, WIDTH)
    assert set(np.unique(steps.nucleus)) == {0, 255}
    assert (steps.nucleus == 0).sum() >= (steps.opened == 0).sum() > 0
    assert (steps.opened == 0).sum() == pytest.approx(np.pi * 28**2, rel=0.1)
    assert np.array_equal(steps.negative, 255 - steps.cropped)
    assert images.feature(picture).shape == (14_400,)
    inner, outer = steps.negative[50:70, 50:70], steps.negative[:15, :15]
    assert inner.mean() > outer.mean() + 50  # the nucleus is what is bright


def test_no_nucleus_and_no_picture():
    plain = np.full((HEIGHT, WIDTH, 3), 200, dtype=np.uint8)
    assert images.centre_of_mass(np.zeros((HEIGHT, WIDTH), dtype=bool)) == (119.5, 159.5)
    assert images.steps(plain).negative.shape == (120, 120)
    with pytest.raises(DataError, match="black all over"):
        images.steps(np.zeros((HEIGHT, WIDTH, 3), dtype=np.uint8))
    with pytest.raises(DataError, match="height × width × 3 of uint8"):
        images.steps(np.zeros((HEIGHT, WIDTH)))
    for content in (b"", b"not a jpeg"):
        with pytest.raises(DataError, match=r"x\.jpeg is not a readable picture"):
            images.decode(content, "x.jpeg")


def test_a_crop_larger_than_the_picture():
    window = images.crop(np.full((20, 30), 7, dtype=np.uint8), (10.0, 15.0), fill=9, side=120)
    assert (window == 7).sum() == 600
    assert (window == 9).sum() == 120 * 120 - 600
    assert (images.crop(np.zeros((20, 30), dtype=np.uint8), (900.0, 0.0), fill=9) == 9).all()


@pytest.mark.parametrize("kind", ["LYMPHOCYTE", "NEUTROPHIL"])
def test_drawn_cells_are_centred(kind):
    rng = np.random.default_rng(3)
    for _ in range(15):
        steps = images.steps(draw_cell(kind, rng))
        middle = steps.negative[35:85, 35:85].mean()
        assert middle > 1.2 * np.concatenate([steps.negative[:10].ravel(), steps.negative[-10:].ravel()]).mean()
    with pytest.raises(ValueError, match="kind is 'MONOCYTE'"):
        draw_cell("MONOCYTE", rng)


def test_generated_stand_in():
    data = load("blood-cells-generated", n=60, n_test=30, seed=2)
    assert data.X.dtype == np.float32
    assert 0 <= data.X.min() <= data.X.max() <= 1
    assert LinearSVC(C=0.01).fit(data.X, data.y).score(data.X_test, data.y_test) > 0.8
    assert load("blood-cells-generated", n=8, n_test=4, pca=5).shape == (8, 5)


# ---------------------------------------------------------------------------------------------------------------- the archive


@pytest.fixture
def archive(tmp_path):
    path = tmp_path / "cells.zip"
    rng = np.random.default_rng(0)
    with zipfile.ZipFile(path, "w") as packed:
        for part, count in (("TRAIN", 5), ("TEST", 2)):
            for kind in ("LYMPHOCYTE", "NEUTROPHIL", "MONOCYTE"):
                for i in range(count):
                    drawn = draw_cell(kind if kind != "MONOCYTE" else "NEUTROPHIL", rng)
                    packed.writestr(f"images/{part}/{kind}/_{i}.jpeg", cv2.imencode(".jpeg", drawn)[1].tobytes())
        packed.writestr("images/TEST_SIMPLE/NEUTROPHIL/_0.jpeg", b"")
    return path


def test_archive(archive, own_cache, monkeypatch):
    data = images.load_crops(archive, jobs=2)
    assert data.shape == (10, 14_400)
    assert data.y.tolist() == [-1] * 5 + [1] * 5
    assert data.y_test.tolist() == [-1] * 2 + [1] * 2
    assert data.X.dtype == np.float32
    assert data.X.max() <= 1
    assert np.array_equal(images.load_crops(archive, jobs=1).X, data.X)
    bytes_ = images.load_crops(archive, white=255.0)
    assert np.allclose(bytes_.X, data.X * 255, rtol=1e-6)
    with zipfile.ZipFile(archive) as packed:
        first = images.decode(packed.read("images/TRAIN/LYMPHOCYTE/_0.jpeg"))
    assert np.array_equal(np.round(bytes_.X[0]).astype(np.uint8), images.feature(first))

    kept = list(own_cache.glob("blood-cells-*.npz"))
    assert len(kept) == 1
    monkeypatch.setattr(images, "feature", None)  # from here on, whatever works comes from the cache
    assert np.array_equal(images.load_crops(archive).X, data.X)
    kept[0].write_bytes(kept[0].read_bytes()[:1000])
    with pytest.raises(TypeError):
        images.load_crops(archive)  # a damaged file is made again


def test_archive_packed_anew_is_the_same(archive, tmp_path):
    from dualgap.lab.studies.blood_cells.pictures import members_digest

    other = tmp_path / "other.zip"
    with zipfile.ZipFile(archive) as old, zipfile.ZipFile(other, "w", zipfile.ZIP_DEFLATED) as new:
        for name in reversed(old.namelist()):
            new.writestr(name.removeprefix("images/"), old.read(name))
    assert members_digest(archive) == members_digest(other)
    assert np.array_equal(images.load_crops(archive).X, images.load_crops(other).X)
    with zipfile.ZipFile(other, "a") as new:
        new.writestr("TEST/NEUTROPHIL/more.jpeg", b"")
    assert members_digest(archive) != members_digest(other)


def test_archive_errors(tmp_path, archive):
    with zipfile.ZipFile(tmp_path / "none.zip", "w") as packed:
        packed.writestr("TRAIN/LYMPHOCYTE/_0.jpeg", b"")
    with pytest.raises(DataError, match="pictures under TRAIN and TEST"):
        images.load_crops(tmp_path / "none.zip")
    (tmp_path / "cut.zip").write_bytes(archive.read_bytes()[:-100])
    with pytest.raises(DataError, match="not a whole zip file"):
        images.load_crops(tmp_path / "cut.zip")
    with zipfile.ZipFile(archive, "a") as packed:
        packed.writestr("TEST/NEUTROPHIL/broken.jpeg", b"\xff\xd8\xff")
    with pytest.raises(DataError, match=r"TEST/NEUTROPHIL/broken\.jpeg is not a readable picture"):
        images.load_crops(archive)


def test_large_pca_is_kept(archive, own_cache, monkeypatch):
    data = images.load_crops(archive)
    monkeypatch.setattr(images, "KEEP_FROM", 0)
    reduced, pca = images.reduce(data, 3, spectrum=5)
    assert len(pca.singular_values) == 5
    monkeypatch.setattr(images, "fit_pca", None)
    again, _ = images.reduce(data, 3, spectrum=5)
    assert np.array_equal(reduced.X, again.X)
    with pytest.raises(TypeError):
        images.reduce(data.with_(X=data.X + 1), 3, spectrum=5)  # other data, another PCA


@pytest.mark.data
def test_real_cells_are_centred(shared_data):
    """In every hundredth picture: violet in the middle of the crop, judged by colour and not by the pipeline's own mask."""
    with zipfile.ZipFile(shared_data("blood-cells.zip")) as packed:
        members = [name for name in packed.namelist() if name.endswith(".jpeg")][::100]
        assert len(members) > 60
        for name in members:
            picture = images.decode(packed.read(name))
            row, column = (round(c) for c in images.steps(picture).centre)
            around = picture[max(row - 30, 0) : row + 30, max(column - 30, 0) : column + 30].astype(int)
            violet = around[:, :, 0] - around[:, :, 2] > 45
            assert violet.mean() > 0.25, name


def test_parts_of_a_member():
    assert images.picture_parts("dataset2/images/TEST/LYMPHOCYTE/_0_1050.jpeg") == ("TEST", "LYMPHOCYTE", "_0_1050.jpeg")
    assert images.picture_parts("dataset2/images/TEST/MONOCYTE/_0_1050.jpeg") is None
