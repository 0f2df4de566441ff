"""load: look-up order, downloads from a server on this machine, checksums, and errors that say what to do."""

import functools
import hashlib
import http.server
import threading
import zipfile

import numpy as np
import pytest

from dualgap.data import DataError, MissingFile, catalogue, describe, entry, known_files, load, names
from dualgap.data.catalogue import Entry
from dualgap.data.known_files import File, data_cache

CONTENT = b"+1 1:1\n-1 2:1\n"
OTHER = b"+1 1:9\n-1 2:9\n"
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def server(tmp_path):
    """A web server on this machine: (its folder, its address)."""
    folder = tmp_path / "served"
    folder.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder)) as httpd:
        thread = threading.Thread(target=httpd.serve_forever, daemon=True)
        thread.start()
        yield folder, f"http://127.0.0.1:{httpd.server_port}"
        httpd.shutdown()
        thread.join()


@pytest.fixture
def toy(monkeypatch):
    """toy(url): adds the data set "toy", one LIBSVM file, to the catalogue."""

    def add(url=None, checksum=f"sha256:{SHA256}"):
        file = File(("toy.svm", "toy.other"), checksum, "https://toys.example/page", url)
        make = functools.partial(catalogue.libsvm_files, n_features=2)
        known = Entry("toy", "a toy", "https://toys.example", "public domain", (2, 2), make, (file,))
        monkeypatch.setitem(catalogue.CATALOGUE, "toy", known)

    return add


def first_value(data):
    return data.X.toarray()[0, 0]


def put(folder, name="toy.svm", content=CONTENT):
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(content)
    return folder


def test_order_folder_cache_source(toy, server, own_cache, tmp_path, monkeypatch):
    served, url = server
    toy(f"{url}/toy.svm")
    put(served)
    assert first_value(load("toy")) == 1  # the source …
    assert (own_cache / "toy.svm").read_bytes() == CONTENT  # … and now the cache
    (served / "toy.svm").unlink()
    assert first_value(load("toy")) == 1
    named = put(tmp_path / "named", content=OTHER)
    monkeypatch.setenv("DUALGAP_DATA", str(named))
    with pytest.raises(DataError, match="is not the expected file"):
        load("toy")  # the folder comes before the cache, even where its file is wrong
    put(named)
    (own_cache / "toy.svm").unlink()
    assert load("toy").source == "https://toys.example"
    given = put(tmp_path / "given", name="toy.other")
    (named / "toy.svm").unlink()
    assert first_value(load("toy", folder=given)) == 1  # an argument comes before the environment


def test_missing_file_says_what_where_from_and_where_to(toy, own_cache, tmp_path):
    toy()
    assert issubclass(MissingFile, DataError)
    with pytest.raises(MissingFile) as caught:
        load("toy", folder=tmp_path / "mine")
    text = str(caught.value)
    for part in ("'toy'", "toy.svm", "https://toys.example/page", str(tmp_path / "mine"), str(own_cache), "account"):
        assert part in text
    assert "\n" not in text
    assert not list(own_cache.iterdir())


def test_no_server_or_no_such_page(toy, server, own_cache):
    _, url = server
    for address, reason in ((f"{url}/absent.svm", "404"), ("http://127.0.0.1:9/toy.svm", "ConnectionError")):
        toy(address)
        with pytest.raises(MissingFile, match=rf"fetch it from {address} .*DUALGAP_DATA names.*downloading failed: .*{reason}"):
            load("toy")
    with pytest.raises(MissingFile, match="downloading was not allowed"):
        load("toy", download=False)
    assert not list(own_cache.iterdir())


def test_a_wrong_download_is_not_kept(toy, server, own_cache):
    served, url = server
    put(served, content=OTHER)
    toy(f"{url}/toy.svm")
    expected = rf"sha256 is {hashlib.sha256(OTHER).hexdigest()} and should be {SHA256}.*fetch it again from {url}"
    with pytest.raises(DataError, match=expected):
        load("toy")
    assert not list(own_cache.iterdir())
    put(served)
    assert first_value(load("toy")) == 1


def test_a_changed_file_is_looked_at_again(toy, tmp_path):
    toy()
    folder = put(tmp_path / "mine")
    load("toy", folder=folder)
    put(folder, content=OTHER + b"\n")
    with pytest.raises(DataError, match="not the expected file"):
        load("toy", folder=folder)


def test_checksum_of_the_csv_inside(tmp_path):
    table = b"a,Class\n1,0\n2,1\n"
    file = File(("t.csv",), f"csv-md5:{hashlib.md5(table).hexdigest()}", "page")
    plain, packed, two, broken = (tmp_path / name for name in ("t.csv", "t.zip", "two.zip", "broken.zip"))
    plain.write_bytes(table)
    for path, members in ((packed, ["t.csv"]), (two, ["a.csv", "b.csv"])):
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for member in members:
                archive.writestr(member, table)
    known_files.verify(plain, file)
    known_files.verify(packed, file)
    with pytest.raises(DataError, match="no single CSV"):
        known_files.verify(two, file)
    content = bytearray(packed.read_bytes())
    content[35] ^= 0xFF
    broken.write_bytes(content)
    with pytest.raises(DataError, match="damaged zip"):
        known_files.verify(broken, file)


def test_places_of_files():
    assert data_cache().name == "data"  # the real one, imported before the tests put their own in its place
    assert known_files.user_folder("my-data").name == "my-data"


def test_folder_that_is_a_file(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DUALGAP_DATA", str(tmp_path / "file"))
    with pytest.raises(DataError, match=r"DUALGAP_DATA is .* not a folder"):
        load("a9a")


def test_unknown_names_and_options():
    with pytest.raises(DataError, match="no data set 'a9b'; did you mean 'a9a'"):
        load("a9b")
    with pytest.raises(DataError, match=r"no data set 'zzz'; dualgap\.data.names"):
        load("zzz")
    with pytest.raises(DataError, match="data set 'separable' has no option 'size'"):
        load("separable", size=3)
    with pytest.raises(DataError, match="data set 'digits' has no option 'seed'"):
        load("digits", seed=3)


def test_describe_has_a_full_row_for_every_name(own_cache):
    rows = describe()
    assert [row["name"] for row in rows] == names()
    for row in rows:
        assert row["rows"] > 0
        assert row["columns"] > 0
        assert row["source"]
        assert row["licence"]
        assert row["description"]
    found = {row["name"]: row["found"] for row in rows}
    assert (found["digits"], found["separable"], found["a9a"], found["creditcard"]) == ("yes", "yes", "download", "by hand")
    assert set(describe()[2]["checksums"]) == {"creditcard.csv.zip"}


def test_every_file_has_a_checksum_and_a_source():
    for known in catalogue.CATALOGUE.values():
        for file in known.files:
            kind, _, digest = file.checksum.partition(":")
            assert kind in ("sha256", "csv-md5", "members-sha256", "spam-sha256")
            assert len(digest) == (32 if kind == "csv-md5" else 64)
            assert file.url is None or file.url.startswith("https://")


@pytest.mark.parametrize("name", ["breast-cancer", "digits"])
def test_sets_that_ship(name):
    data = load(name)
    assert data.shape == entry(name).shape
    assert len(data.classes) == entry(name).classes
    assert not data.generated
    assert data.licence == "CC BY 4.0"


def test_rows_are_normalised(tmp_path):
    path = tmp_path / "four.svm"
    path.write_text("1 1:3 2:4\n12\n11 2:2\n2\n")
    data = catalogue.news20_binary([path], n_features=2)
    assert data.X.toarray().tolist() == [[0.6, 0.8], [0, 0], [0, 1], [0, 0]]
    assert data.y.tolist() == [-1, 1, 1, -1]


# ------------------------------------------------------------------------------------------------------------------- real data


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("heart", "heart_scale"),
        ("german", "german.numer"),
        ("rcv1-small", "rcv1_small_train.dat"),
        ("spambase", "spamData.mat"),
        ("a9a", "a9a.t"),
    ],
)
def test_real_sets_have_the_shape_in_the_catalogue(shared_data, name, file):
    data = load(name, folder=shared_data(file).parent, download=False)
    known = entry(name)
    assert data.shape == known.shape
    assert (data.X_test.shape[0] if data.has_test else 0) == known.test_rows
    assert data.classes.tolist() == [-1, 1]


@pytest.mark.data
def test_spambase_from_the_file_of_uci(shared_data, tmp_path):
    data = load("spambase", folder=shared_data("spamData.mat").parent)
    X, y = np.vstack([data.X, data.X_test]), np.concatenate([data.y, data.y_test])
    shuffled = np.random.default_rng(0).permutation(len(y))
    np.savetxt(tmp_path / "spambase.data", np.column_stack([X, y > 0])[shuffled], delimiter=",", fmt="%g")
    same = load("spambase", folder=tmp_path, download=False)
    assert same.shape == (4000, 57)
    assert same.X_test.shape == (601, 57)
    assert same.feature_names[0] == "word_freq_make"
    assert sum(same.y == 1) + sum(same.y_test == 1) == 1813
    lines = (tmp_path / "spambase.data").read_text().splitlines()
    (tmp_path / "spambase.data").write_text("\n".join(lines[:-1]))
    with pytest.raises(DataError, match="not the expected file"):
        load("spambase", folder=tmp_path, download=False)


@pytest.mark.data
def test_news20_binary(shared_data):
    folder = shared_data("news20.bz2").parent
    data = load("news20-binary", folder=folder)
    assert data.shape == (15_935, 62_061)
    assert data.counts == {-1: 7951, 1: 7984}
    assert np.asarray(data.X.multiply(data.X).sum(axis=1)) == pytest.approx(1.0)


@pytest.mark.data
@pytest.mark.slow
def test_pros_cons(shared_data):
    data = load("pros-cons", folder=shared_data("pros_cons.zip").parent)
    assert data.shape == entry("pros-cons").shape
    assert data.shape[0] + data.X_test.shape[0] == 45_875
    tagged = data.X[:, [data.feature_names.index(word) for word in ("pros", "cons") if word in data.feature_names]]
    assert tagged.nnz < 500  # the words in people's sentences, not the tags around all of them
    assert data.source.startswith("https://")  # a page, not a path of this machine


@pytest.mark.data
@pytest.mark.slow
def test_creditcard(shared_data):
    data = load("creditcard", folder=shared_data("creditcard.csv.zip").parent)
    assert data.shape == (284_807, 30)
    assert data.counts == {0: 284_315, 1: 492}
    assert data.feature_names[:2] == ("Time", "V1")
