"""The part of the report on hardware that is not here."""

import re

import pytest
from conftest import REPOSITORY
from programs import made_up, program

from pipeline.compiled.answers import read_compiled
from pipeline.compiled.schema import CHECK, COMPILED_FILES, read_check
from pipeline.errors import InputError
from pipeline.report.reporting import describe_8_bits, describe_check, hardware_elsewhere, parts
from pipeline.report.results import load_results

MADE, CHECKED_HERE = read_compiled(REPOSITORY / COMPILED_FILES), read_check(REPOSITORY / COMPILED_FILES)


def test_the_report_shows_every_target_and_where_nothing_is_judged(rendered):
    found = load_results(rendered)
    assert "Nothing was compiled" in parts(found)("elsewhere")
    html = parts(found._replace(compiled=MADE, checked=CHECKED_HERE))("elsewhere")
    assert all(made.title in html for made in MADE)
    for words in ("not yet validated on a device", "that is another program"):
        assert words in html
    (h100,) = [made for made in MADE if made.target == "h100"]
    memory = h100.find("mnist_dense", "mixed_float16", 8192).memory
    assert f'<td class="nowrap">{memory.total / 2**20:,.0f} (0.' in html
    assert "8 of 8 and 248 of 250 have all operands in 16 bits" in html
    v100 = html[html.index("NVIDIA V100, 16 GB") :]
    assert re.findall(r"\((0\.\d\d)×\)", v100)[:2] == ["0.59", "0.51"]
    assert "under float8: 8 of 8 products are in 8 bits" in html
    assert "On a CPU, where a step can run (" in html


def test_a_step_that_was_refused_says_so():
    refused = program("mixed_float16", 0, memory=None, refusal={"words": "no such kernel", "for_memory": False})
    (row,) = hardware_elsewhere([made_up(program("float32", 1), refused)])["rows"]
    assert row["cells"][0]["mebibytes"][1:] == ["refused", "–", "–"]


def test_products_in_8_bits_are_told_with_the_memory_of_their_steps():
    operations = [
        {"kind": "product", "operands": operands, "result": "bfloat16", "count": count}
        for operands, count in (("f8e4m3fn", 3), ("f8e4m3fn × f8e5m2", 4), ("f8e4m3fn × bfloat16", 1))
    ]
    steps = [program("float32", 1000), program("float32", 2000, 32)]
    eight = [program("float8", total, size, operations=operations) for total, size in ((600, 16), (1100, 32))]
    assert describe_8_bits([made_up(*steps, *eight), made_up(*steps)]) == (
        "b, under float8: 7 of 8 products are in 8 bits, and a step takes 0.55 to 0.6 times the memory of float32 (t)."
    )
    assert describe_8_bits([made_up(*steps)]) == ""


CHECKED = """\
benchmark,image_size,precision,batch_size,compiled_bytes,measured_bytes,once_bytes,cpu,jax,day
mnist_dense,28,float32,2048,90,100,1048576,Example CPU,0.10.2,2026-11-24
mnist_dense,28,float32,4096,110,100,3145728,Example CPU,0.10.2,2026-11-24
cifar100_efficientnet_b0,64,mixed_bfloat16,16,80,100,2097152,Example CPU,0.10.2,2026-11-24
"""


def test_how_far_off_the_compiler_was_on_a_cpu_follows_from_the_data(tmp_path):
    assert describe_check(read_check(tmp_path)) == ""
    (tmp_path / CHECK).write_text(CHECKED)
    assert describe_check(read_check(tmp_path)) == (
        "On a CPU, where a step can run (Example CPU, JAX 0.10.2, 2026-11-24), in float32 and mixed_bfloat16, the "
        "compiler predicts 0.9 to 1.1× (MNIST, dense network of 4,096 units, 28 × 28, batches 2,048, 4,096) and 0.8× "
        "(CIFAR-100, EfficientNet-B0, 64 × 64, batches 16) the memory that a step took. The process itself keeps "
        "another 1 to 3 MiB after the first step."
    )
    (tmp_path / CHECK).write_text(CHECKED.replace(",100,", ",0,"))
    with pytest.raises(InputError, match=r"check\.csv is damaged .* Remove it\."):
        read_check(tmp_path)
