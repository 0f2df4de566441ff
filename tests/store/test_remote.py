"""Files at an address: any file system that fsspec opens, here memory and an archive behind another address."""

import numpy as np
import pytest

from dualgap.app.cli import main
from dualgap.data import DataError
from dualgap.store import Store, StoreError, convert

fsspec = pytest.importorskip("fsspec", reason="addresses need fsspec, which comes with dualgap[remote]")
polars = pytest.importorskip("polars", reason="tables need polars")


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    return polars.DataFrame({"u": rng.standard_normal(400), "v": rng.standard_normal(400), "label": rng.integers(2, size=400)})


@pytest.fixture
def bucket(frame):
    """A file system in memory: one CSV file, and a folder of Parquet files with a note beside them."""
    system = fsspec.filesystem("memory")
    with system.open("/bucket/all.csv", "wb") as stream:
        frame.write_csv(stream)
    for k in range(4):
        with system.open(f"/bucket/parts/{k}.parquet", "wb") as stream:
            frame[100 * k : 100 * (k + 1)].write_parquet(stream)
    with system.open("/bucket/parts/_SUCCESS", "wb") as stream:
        stream.write(b"")
    yield system
    system.rm("/bucket", recursive=True)


def in_order(store):
    order = np.argsort(store.origin())
    return np.concatenate([store.matrix(k) for k in range(len(store.parts))])[order], store.labels()[order]


@pytest.mark.parametrize("url", ["memory://bucket/all.csv", "memory://bucket/parts"])
def test_a_store_from_an_address(bucket, frame, tmp_path, url):
    store = convert(url, tmp_path / "store", target="label")
    X, y = in_order(store)
    np.testing.assert_array_equal(X, frame.select("u", "v").to_numpy())
    np.testing.assert_array_equal(y, frame["label"].to_numpy())
    assert store.manifest.sources[0]["path"].startswith("memory://")
    assert [path.name for path in tmp_path.iterdir()] == ["store"]  # the copies are gone
    assert convert(url, tmp_path / "store", target="label").manifest == store.manifest  # done already


def test_a_conversion_of_an_address_goes_on_with_its_copy(bucket, tmp_path, monkeypatch):
    class Stop(Exception):
        pass

    def stop(stage, rows):
        raise Stop

    with pytest.raises(Stop):
        convert("memory://bucket/all.csv", tmp_path / "store", target="label", progress=stop)
    assert (tmp_path / "store.input").is_dir()
    monkeypatch.setattr(type(bucket), "get_file", lambda *args, **options: pytest.fail("it was copied again"))
    store = convert("memory://bucket/all.csv", tmp_path / "store", target="label")
    assert store.shape == (400, 2)


def test_a_file_in_an_archive_and_a_local_address(frame, tmp_path):
    import zipfile

    frame.write_csv(tmp_path / "all.csv")
    with zipfile.ZipFile(tmp_path / "both.zip", "w") as archive:
        archive.write(tmp_path / "all.csv", "all.csv")
        archive.writestr("letter.txt", "Dear")
    one = convert(f"file://{tmp_path}/all.csv", tmp_path / "one", target="label")
    two = convert(f"zip://all.csv::file://{tmp_path}/both.zip", tmp_path / "two", target="label")
    assert one.parts == two.parts
    assert (tmp_path / "all.csv").exists()  # a local file is no copy


def test_commands_take_addresses(bucket, tmp_path, capsys):
    assert main(["convert", "memory://bucket/parts", str(tmp_path / "store"), "--target", "label"]) == 0
    assert Store(tmp_path / "store").shape == (400, 2)
    model = str(tmp_path / "m.skops")
    assert main(["fit", "memory://bucket/all.csv", "--target", "label", "--model", model, "--cv", "0"]) == 0
    assert main(["predict", model, "memory://bucket/all.csv"]) == 0
    assert len(capsys.readouterr().out.splitlines()) > 400


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("memory://bucket/nothing.csv", "there is no such file"),
        ("nosuch://bucket/a.csv", "Protocol not known: nosuch"),
    ],
)
def test_errors_name_the_address(bucket, tmp_path, url, message):
    with pytest.raises(DataError, match=message) as caught:
        convert(url, tmp_path / "store")
    assert url in str(caught.value)


def test_a_file_system_that_is_not_installed_is_named(tmp_path, monkeypatch):
    def missing(url, **options):
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr(fsspec.core, "url_to_fs", missing)
    with pytest.raises(DataError, match=r"s3://bucket/a.csv: Install s3fs to access S3; install the package"):
        convert("s3://bucket/a.csv", tmp_path / "store")


def test_a_store_is_on_a_local_disk(bucket, tmp_path):
    with pytest.raises(StoreError, match="give a local folder"):
        convert("memory://bucket/all.csv", "memory://bucket/store")
    with pytest.raises(StoreError, match="copy it to a local folder"):
        Store("s3://bucket/store")


def test_folders(frame, tmp_path):
    """A folder stands for its tables; the folders of a partitioned data set are refused with what to do."""
    (tmp_path / "plain").mkdir()
    for k in range(3):
        frame[150 * k : 150 * (k + 1)].write_parquet(tmp_path / "plain" / f"{k}.parquet")
    X, _ = in_order(convert(tmp_path / "plain", tmp_path / "store", target="label"))
    np.testing.assert_array_equal(X, frame.select("u", "v").to_numpy())
    (tmp_path / "parted" / "year=2024").mkdir(parents=True)
    frame.write_parquet(tmp_path / "parted" / "year=2024" / "0.parquet")
    with pytest.raises(DataError, match=r"'year' are in the names of the folders.*hive_partitioning=True"):
        convert(tmp_path / "parted", tmp_path / "other", target="label")
