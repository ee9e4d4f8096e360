"""docs/attention.md and the models of templates say the same."""

from __future__ import annotations

import json
import re
from typing import get_args

from bench.pages.__main__ import ROOT
from bench.pages.settings import attention_page
from hobus.config.attention_template import AnyStage, Template


def test_every_stage_and_key_is_on_the_page() -> None:
    text = attention_page()
    for stage in get_args(AnyStage):
        (kind,) = get_args(stage.model_fields["type"].annotation)
        section = re.split(rf"### .*`{kind}`.*\n", text)[1].partition("###")[0]
        for name, field in stage.model_fields["config"].annotation.model_fields.items():
            assert field.description
            assert f"- `{name}`: " in section


def test_template_of_the_page_is_one() -> None:
    (told,) = re.findall(r"```json\n(.*?)```", (ROOT / "docs" / "attention.md").read_text(encoding="utf-8"), re.DOTALL)
    assert Template.model_validate(json.loads(told)).template_id == "ATT-CLERK-001"
