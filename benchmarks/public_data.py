"""Public data sets as vertical splits, with bounds and categories declared from their published descriptions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from colonnade.data.forms import even_edges
from colonnade.data.kinds import Column, NumericColumn
from colonnade.data.labels import ClassLabel, Label
from colonnade.data.levels import BinaryColumn, BinnedColumn, CategoricalColumn
from colonnade.data.maps import FeatureMap, GradientHistogram
from colonnade.data.schema import Schema
from colonnade.data.table import Table
from colonnade.randomness import public_permutation

CLASSES = ("<=50K", ">50K")
ADULT_BANK: tuple[Column, ...] = (
    NumericColumn("age", 17, 90),
    NumericColumn("capital_gain", 0, 99999, "log1p"),
    NumericColumn("capital_loss", 0, 4356, "log1p"),
    CategoricalColumn(
        "marital_status",
        (
            "Divorced",
            "Married-AF-spouse",
            "Married-civ-spouse",
            "Married-spouse-absent",
            "Never-married",
            "Separated",
            "Widowed",
        ),
    ),
    CategoricalColumn(
        "relationship", ("Husband", "Not-in-family", "Other-relative", "Own-child", "Unmarried", "Wife")
    ),
    BinaryColumn("sex", ("Female", "Male")),
)
ADULT_EMPLOYER: tuple[Column, ...] = (
    NumericColumn("education_num", 1, 16),
    NumericColumn("hours_per_week", 1, 99),
    CategoricalColumn(
        "workclass",
        (
            "Federal-gov",
            "Local-gov",
            "Private",
            "Self-emp-inc",
            "Self-emp-not-inc",
            "State-gov",
            "Without-pay",
        ),
    ),
    CategoricalColumn(
        "occupation",
        (
            "Adm-clerical",
            "Armed-Forces",
            "Craft-repair",
            "Exec-managerial",
            "Farming-fishing",
            "Handlers-cleaners",
            "Machine-op-inspct",
            "Other-service",
            "Priv-house-serv",
            "Prof-specialty",
            "Protective-serv",
            "Sales",
            "Tech-support",
            "Transport-moving",
        ),
    ),
    CategoricalColumn("race", ("Amer-Indian-Eskimo", "Asian-Pac-Islander", "Black", "Other", "White")),
    CategoricalColumn("native_country", ("United-States", "elsewhere"), other="elsewhere"),
)

CREDIT: tuple[Column, ...] = (
    NumericColumn("LIMIT_BAL", 10_000, 1_000_000, "log1p"),
    BinaryColumn("SEX", ("1", "2")),
    CategoricalColumn("EDUCATION", ("1", "2", "3", "other"), other="other"),
    CategoricalColumn("MARRIAGE", ("1", "2", "other"), other="other"),
    NumericColumn("AGE", 18, 80),
    # Paid in full, the least amount paid, late by one month, by more.
    *(BinnedColumn(f"PAY_{month}", (0, 1, 2)) for month in (0, 2, 3, 4, 5, 6)),
    *(NumericColumn(f"BILL_AMT{month}", 0, 1_000_000) for month in range(1, 7)),
    *(NumericColumn(f"PAY_AMT{month}", 0, 2_000_000, "log1p") for month in range(1, 7)),
)
PHISHING_THREE_VALUED = (
    "URL_Length",
    "having_Sub_Domain",
    "SSLfinal_State",
    "URL_of_Anchor",
    "Links_in_tags",
    "SFH",
    "web_traffic",
    "Links_pointing_to_page",
)
# Major groups of the 2018 Census occupation codes, from management to the armed forces.
OCCUPATIONS = (
    *(500, 800, 1000, 1300, 1600, 2000, 2100, 2200, 2600, 3000, 3600, 3700),
    *(4000, 4200, 4300, 4700, 5000, 6000, 6200, 6800, 7000, 7700, 9000, 9800),
)
# States, islands, Europe, Asia, North America and Mexico, Central America, Caribbean, South America, Africa, Oceania.
BIRTHPLACES = (60, 100, 200, 300, 310, 320, 360, 400, 500)
ACS_INCOME: tuple[Column, ...] = (
    NumericColumn("AGEP", 17, 95),
    CategoricalColumn("SCHL", tuple(str(code) for code in range(1, 25))),
    CategoricalColumn("MAR", ("1", "2")),
    CategoricalColumn("RELP", tuple(str(code) for code in range(18))),
    BinaryColumn("SEX", ("1", "2")),
    CategoricalColumn("COW", tuple(str(code) for code in range(1, 9))),
    BinnedColumn("OCCP", OCCUPATIONS),
    NumericColumn("WKHP", 1, 99),
    BinnedColumn("POBP", BIRTHPLACES),
    CategoricalColumn("RAC1P", tuple(str(code) for code in range(1, 6))),
)


BINS = 16
"""Ordered bins of a number, of one width on its declared scale."""
Rows = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True, eq=False)
class Split:
    """Every party's table of the training people, and both groups in one place for comparison."""

    tables: list[Table]
    train_rows: Rows
    train_labels: np.ndarray[Any, Any]
    test_rows: Rows
    test_labels: np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class PublicSet:
    """Rows by raw column, a label, and which party would hold what."""

    columns: tuple[Column, ...]
    label: Label
    rows: Rows
    labels: np.ndarray[Any, Any]

    def split(self, parties: int, number: int) -> Split:
        """Tables of as many parties over a random 80 % of the people; the other 20 % are for testing.

        Splits 0 to 4 test everybody once, so do 5 to 9, in another order: which people happen to be tested then does
        not move a mean over ten splits. The first party holds the label; columns are dealt out in declaration order,
        as evenly as they go.
        """
        train, test = self.parts(number)
        tables = self.tables(parties, train)
        return Split(tables, self._take(train), self.labels[train], self._take(test), self.labels[test])

    def parts(self, number: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """The people of a split: to train on, and to test on."""
        shuffled = np.array_split(public_permutation(len(self.labels), number // 5), 5)
        test = shuffled.pop(number % 5)
        return np.concatenate(shuffled), test

    def tables(self, parties: int, people: np.ndarray[Any, Any]) -> list[Table]:
        """These people in tables of as many parties, the label with the first."""
        names = [f"party{number}" for number in range(1, parties + 1)]
        tables = []
        for name, columns in zip(names, np.array_split(np.arange(len(self.columns)), parties), strict=True):
            mine = tuple(self.columns[i] for i in columns)
            arrays = {column.name: self.rows[column.name][people] for column in mine}
            label = self.label if name == names[0] else None
            if label is not None:
                arrays[label.column] = self.labels[people]
            tables.append(Table.from_arrays(name, arrays, Schema("row", mine, label)))
        return tables

    def _take(self, people: np.ndarray[Any, Any]) -> Rows:
        return {name: values[people] for name, values in self.rows.items()}


def adult(folder: Path) -> PublicSet:
    """The 45,222 complete rows of UCI Adult, without fnlwgt and education, native country as US or elsewhere."""
    tables = [pq.read_table(folder / f"adult_{part}.parquet") for part in ("train", "test")]
    decoded = [pa.table({name: table[name].to_pylist() for name in table.column_names}) for table in tables]
    table = pa.concat_tables(decoded).drop_null()
    columns = (*ADULT_BANK, *ADULT_EMPLOYER)
    rows = {column.name: np.array(table[column.name].to_pylist()) for column in columns}
    labels = np.array([value.strip().rstrip(".") for value in table["income"].to_pylist()])
    return PublicSet(columns, ClassLabel("income", CLASSES), rows, labels)


def credit(folder: Path) -> PublicSet:
    """Default of credit card clients (UCI): 30,000 people, whether they miss next month's payment."""
    table = pq.read_table(folder / "uci_default_credit_card.parquet")
    return _numbered(table, CREDIT, ClassLabel("default_payment_next_month", ("0", "1")))


def phishing(folder: Path) -> PublicSet:
    """Phishing websites (UCI): 11,055 sites, whether they are fraudulent; values as categories."""
    table = pq.read_table(folder / "phishing_websites.parquet")
    columns = tuple(
        CategoricalColumn(name, ("-1", "0", "1"))
        if name in PHISHING_THREE_VALUED
        else BinaryColumn(name, ("0", "1") if name == "Redirect" else ("-1", "1"))
        for name in table.column_names
        if name != "Result"
    )
    return _numbered(table, columns, ClassLabel("Result", ("-1", "1")))


def acs_income_texas(folder: Path) -> PublicSet:
    """ACSIncome 2018 of Texas: 135,924 people, whether they earn more than 50,000 dollars a year."""
    return acs_income(folder, "TX")


def acs_income(folder: Path, state: str) -> PublicSet:
    """ACSIncome 2018 of one state."""
    table = pq.read_table(folder / "acs_income_2018.parquet")
    table = table.filter(pc.equal(table["ST"].cast(pa.string()), state))
    income = table["PINCP_gt_50000"].cast(pa.int8())
    table = table.set_column(table.column_names.index("PINCP_gt_50000"), "PINCP_gt_50000", income)
    return _numbered(table, ACS_INCOME, ClassLabel("PINCP_gt_50000", ("0", "1")))


DUTCH: tuple[Column, ...] = (
    BinaryColumn("sex", ("1", "2")),
    NumericColumn("age", 4, 15),
    CategoricalColumn("household_position", ("1110", "1121", "1122", "1131", "1132", "1140", "1210", "1220")),
    CategoricalColumn("household_size", ("111", "112", "113", "114", "125", "126")),
    BinaryColumn("prev_residence_place", ("1", "2")),
    CategoricalColumn("citizenship", ("1", "2", "3")),
    CategoricalColumn("country_birth", ("1", "2", "3")),
    NumericColumn("edu_level", 0, 5),
    CategoricalColumn("economic_status", ("111", "112", "120")),
    CategoricalColumn("cur_eco_activity", ("111", "122", "124", *(str(code) for code in range(131, 140)))),
    CategoricalColumn("marital_status", ("1", "2", "3", "4")),
)


def dutch(folder: Path) -> PublicSet:
    """The Dutch census of 2001: 60,420 people, whether their occupation is of a higher level."""
    table = pq.read_table(folder / "dutch_census_2001.parquet")
    rows = {column.name: table[column.name].to_numpy() for column in DUTCH}
    labels = np.array(table["occupation"].to_pylist())
    return PublicSet(DUTCH, ClassLabel("occupation", ("5_4_9", "2_1")), rows, labels)


def thinned(data: PublicSet, share: float) -> PublicSet:
    """The same people without most of the second class, so that only this share is left of it."""
    second = data.labels.astype(str) == str(data.label.classes[1])
    rare = np.flatnonzero(second)
    wanted = round(share / (1.0 - share) * np.count_nonzero(~second))
    kept = np.sort(np.concatenate([np.flatnonzero(~second), rare[public_permutation(len(rare), 0)][:wanted]]))
    return PublicSet(data.columns, data.label, data._take(kept), data.labels[kept])


def binned(data: PublicSet) -> PublicSet:
    """The same people with every number in ordered bins of one width on its declared scale."""
    return PublicSet(tuple(in_bins(column) for column in data.columns), data.label, data.rows, data.labels)


def in_bins(column: Column) -> Column:
    """A number in ordered bins; anything else as it is."""
    if isinstance(column, BinnedColumn):
        return BinnedColumn(column.name, column.edges, column.missing, ordered=True)
    if not isinstance(column, NumericColumn):
        return column
    edges = even_edges(column.name, BINS, low=column.low, high=column.high, transform=column.transform)
    return BinnedColumn(
        column.name, edges, ordered=True, low=column.low, high=column.high, transform=column.transform
    )


GIVE_CREDIT: tuple[Column, ...] = (
    NumericColumn("x0", 0, 60),  # open credit lines
    *(
        NumericColumn(name, 0, 20, "log1p") for name in ("x1", "x2", "x3")
    ),  # 90 days late, loans, 60 days late
    NumericColumn("x4", 0, 10),  # dependents
    NumericColumn("x5", 0, 2),  # use of revolving credit
    NumericColumn("x6", 18, 100),  # age
    NumericColumn("x7", 0, 20, "log1p"),  # 30 days late
    NumericColumn("x8", 0, 5),  # debt ratio
    NumericColumn("x9", 0, 50_000, "log1p"),  # monthly income
)
KDD_NUMBERS: dict[str, tuple[float, float, bool]] = {
    **dict.fromkeys(("duration", "src_bytes", "dst_bytes"), (0, 1e9, True)),
    **dict.fromkeys(("count", "srv_count"), (0, 511, False)),
    **dict.fromkeys(("dst_host_count", "dst_host_srv_count"), (0, 255, False)),
    **dict.fromkeys(("hot", "num_failed_logins", "num_compromised"), (0, 1e3, True)),
    **dict.fromkeys(
        (
            *("serror_rate", "srv_serror_rate", "rerror_rate", "srv_rerror_rate", "same_srv_rate"),
            *("diff_srv_rate", "srv_diff_host_rate", "dst_host_same_srv_rate", "dst_host_diff_srv_rate"),
            *("dst_host_same_src_port_rate", "dst_host_srv_diff_host_rate", "dst_host_serror_rate"),
            *("dst_host_srv_serror_rate", "dst_host_rerror_rate", "dst_host_srv_rerror_rate", "logged_in"),
        ),
        (0, 1, False),
    ),
}
KDD: tuple[Column, ...] = (
    *(
        NumericColumn(name, low, high, "log1p" if log else "none")
        for name, (low, high, log) in KDD_NUMBERS.items()
    ),
    CategoricalColumn("protocol_type", ("icmp", "tcp", "udp")),
    CategoricalColumn("flag", ("REJ", "RSTO", "RSTR", "S0", "S1", "SF", "SH", "other"), other="other"),
)
PROBES = ("ipsweep", "nmap", "portsweep", "satan")


def give_credit(folder: Path) -> PublicSet:
    """30,000 people of Give me some credit: 6.7 % are seriously late with a payment within two years."""
    table = pq.read_table(folder / "fate_give_credit_homo_test.parquet")
    return _numbered(table, GIVE_CREDIT, ClassLabel("y", ("0", "1")))


def kdd_probes(folder: Path) -> PublicSet:
    """KDD Cup 1999, ten per cent: 101,385 connections that are normal or probe for a way in (4.1 %)."""
    table = pq.read_table(folder / "kddcup99_10_percent.parquet")
    found = np.array(table["label"].to_pylist())
    kept = np.flatnonzero(np.isin(found, ("normal", *PROBES)))
    rows = {column.name: np.array(table[column.name].to_pylist())[kept] for column in KDD}
    labels = np.where(found[kept] == "normal", "normal", "probe")
    return PublicSet(KDD, ClassLabel("label", ("normal", "probe")), rows, labels)


def mnist(folder: Path) -> Split:
    """MNIST as four parties that hold a quadrant of every digit each, through gradient histograms; its own test set."""
    with np.load(folder / "mnist.npz", allow_pickle=False) as archive:
        images = {part: archive[f"x_{part}"] for part in ("train", "test")}
        labels = {part: archive[f"y_{part}"].astype(np.int64) for part in ("train", "test")}
    label = ClassLabel("digit", tuple(str(digit) for digit in range(10)))
    mapped = FeatureMap(GradientHistogram(rows=14, cols=14))
    rows: dict[str, Rows] = {"train": {}, "test": {}}
    tables = []
    for number, (top, left) in enumerate(((0, 0), (0, 14), (14, 0), (14, 14))):
        names = [f"{top + row}x{left + col}" for row in range(14) for col in range(14)]
        for part, found in images.items():
            pixels = found[:, top : top + 14, left : left + 14].reshape(len(found), -1)
            rows[part].update(dict(zip(names, np.asfortranarray(pixels).T, strict=True)))
        columns = tuple(NumericColumn(name, 0, 255) for name in names)
        schema = Schema("row", columns, None if number else label, map=mapped)
        arrays = {name: rows["train"][name] for name in names}
        if not number:
            arrays[label.column] = labels["train"]
        tables.append(Table.from_arrays(f"party{number + 1}", arrays, schema))
    return Split(tables, rows["train"], labels["train"], rows["test"], labels["test"])


def _numbered(table: pa.Table, columns: tuple[Column, ...], label: ClassLabel) -> PublicSet:
    """A set whose values are numbers, also those that are codes of categories."""
    rows = {column.name: table[column.name].to_numpy() for column in columns}
    return PublicSet(columns, label, rows, table[label.column].to_numpy())
