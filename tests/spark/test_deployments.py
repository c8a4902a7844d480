"""The ways to a cluster: Spark Connect, TLS, modules of the user's own, several jobs on one session."""

from __future__ import annotations

import datetime
import ipaddress
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import cutwater as cw

from .ledger_job import LedgerJob, kill, wait_for

TESTS = Path(__file__).parents[1]


def test_tls_protects_every_connection_of_a_job(spark: Any, tmp_path: Path) -> None:
    ledger = LedgerJob(tmp_path, records=6_000)
    job = ledger.submit(spark, tls=certificates(tmp_path))
    status = wait_for(job, lambda status: status.checkpoints_completed >= 2)
    kill(next(slot.pid for slot in status.slots if slot.tasks))
    assert job.wait("2min").restarts == 1
    ledger.assert_output_is_exact()


def test_two_jobs_share_a_session(spark: Any, tmp_path: Path) -> None:
    first = LedgerJob(tmp_path / "first", records=6_000)
    second = LedgerJob(tmp_path / "second", records=6_000)
    jobs = [ledger.submit(spark, parallelism=1) for ledger in (first, second)]
    for job in jobs:
        job.wait("2min")
    first.assert_output_is_exact()
    second.assert_output_is_exact()


def test_modules_of_the_user_travel_with_the_job(tmp_path: Path) -> None:
    """From a folder that the executors don't have on their path."""
    package = tmp_path / "warehouse"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "prices.py").write_text("from warehouse.taxes import with_tax\n\ndef price(x): return with_tax(x)\n")
    (package / "taxes.py").write_text("def with_tax(x): return x * 2\n")
    script = """
        import cutwater as cw
        from cutwater.deploy.session import embedded_session
        from warehouse.prices import price
        spark = embedded_session(2, settings={"spark.master": "local-cluster[1,2,1024]"})
        print(sorted(cw.Environment(parallelism=2, spark=spark).from_collection([1, 2, 3]).map(price)
            .execute_and_collect()))
    """
    assert run(tmp_path, script).splitlines()[-1] == "[2, 4, 6]"


def test_a_job_on_spark_connect_survives_a_kill(tmp_path: Path) -> None:
    script = f"""
        import os, sys
        from cutwater.deploy.java import find_java_home
        os.environ.update(PYSPARK_PYTHON=sys.executable, JAVA_HOME=str(find_java_home(os.environ)))
        sys.path.insert(0, {str(TESTS.parent)!r})
        from pathlib import Path
        from pyspark.sql import SparkSession
        from tests.spark.ledger_job import LedgerJob, kill, wait_for
        spark = SparkSession.builder.remote("local[4]").getOrCreate()
        ledger = LedgerJob(Path({str(tmp_path)!r}), records=6_000)
        job = ledger.submit(spark)
        status = wait_for(job, lambda status: status.checkpoints_completed >= 2)
        kill(status.slots[0].pid)
        result = job.wait("2min")
        ledger.assert_output_is_exact()
        print(*(recovery.cause.replace("\\n", " ") for recovery in result.status.recoveries), sep="\\n")
        spark.stop()
    """
    (cause,) = run(tmp_path, script).splitlines()
    assert "was lost (its process is gone" in cause


def test_a_dataframe_is_a_source(spark: Any, tmp_path: Path) -> None:
    env = cw.Environment(spark=spark, parallelism=2, checkpoints=cw.Checkpoints(every="100ms"))
    frame = spark.range(0, 5_000, 1, 4).selectExpr("id", "id % 7 AS remainder")
    rows = (
        env.from_dataframe(frame, staging=str(tmp_path / "staged")).key_by("remainder").sum("id").execute_and_collect()
    )
    totals: dict[int, int] = {}
    for key, total in rows:
        totals[key] = max(total, totals.get(key, 0))
    assert totals == {key: sum(range(key, 5_000, 7)) for key in range(7)}
    assert len(list((tmp_path / "staged").glob("*/part-*.parquet"))) == 4


def test_a_dataframe_that_spark_cannot_compute_fails_the_job(spark: Any) -> None:
    env = cw.Environment(spark=spark, parallelism=1, restart=cw.restart.none())
    frame = spark.range(3).selectExpr("raise_error('no such luck') AS never", "id")
    with pytest.raises(cw.errors.CutwaterError, match="failed to compute the DataFrame"):
        env.from_dataframe(frame).execute_and_collect()


def run(folder: Path, script: str) -> str:
    path = folder / "job.py"
    path.write_text(textwrap.dedent(script))
    result = subprocess.run(
        [sys.executable, path], capture_output=True, text=True, timeout=280, check=False, cwd=folder
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def certificates(folder: Path) -> cw.TlsFiles:
    """One self-signed certificate that is its own authority, for the loopback address."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    alternatives = x509.SubjectAlternativeName(
        [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    )
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(alternatives, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "certificate.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    pem = str(folder / "certificate.pem")
    return cw.TlsFiles(certificate=pem, key=str(folder / "key.pem"), ca=pem)
