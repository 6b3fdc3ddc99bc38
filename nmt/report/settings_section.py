"""The section Settings: what differs from the defaults, the environment, and the commands of the run."""

import shlex

from nmt.config import Recipe
from nmt.config.model_sections import Schedule
from nmt.config.section import Difference, differences
from nmt.report.page import Html, Section, element, folded, joined, table
from nmt.report.run_records import RunRecords
from nmt.report.run_table import setting_text


def settings_section(run: RunRecords) -> Section:
    """Return the section of a run: recipe, versions, commands, and, folded, the whole recipe."""
    changes = [(one.key, setting_text(one.now), setting_text(one.before)) for one in changed_settings(run.recipe)]
    environment = [(name, setting_text(value)) for name, value in run.environment.items()]
    tables = [
        table(("key", "value", "default"), changes, "Settings that differ from the defaults."),
        table(("item", "value"), environment, "Versions and device."),
    ]
    recipe = folded("The whole recipe", element("pre", (run.path / "recipe.yaml").read_text(encoding="utf-8")))
    content = [element("div", *tables, class_="columns"), _commands(run), recipe]
    return Section("settings", "Settings", joined(content))


def changed_settings(recipe: Recipe) -> list[Difference]:
    """Return the settings that are not the defaults; `before` is the default."""
    now = recipe.model_dump(mode="json")
    required = {"languages": recipe.languages, "run": recipe.run}
    # the texts have no default, so that each one is a difference
    default = Recipe.model_validate({**required, "data": {"train": recipe.data.train}}).model_dump(mode="json")
    schedule = recipe.train.schedule
    name = default["train"]["schedule"]["name"]
    default["train"]["schedule"] = {**Schedule(name=schedule.name).model_dump(mode="json"), "name": name}
    default.update(languages=None, run=None)
    default["data"]["train"] = None
    return [change for change in differences(default, now) if not change.key.endswith(".oversample") or change.now != 1]


def _commands(run: RunRecords) -> Html:
    path = shlex.quote(str(run.path))
    recipe, again = (shlex.quote(text) for text in (str(run.path / "recipe.yaml"), f"run={run.path}-again"))
    commands = f"nmt translate --model {path} < FILE\nnmt train --config {recipe} --set {again}"
    note = "The second command trains the same model again, on the same machine with the same versions and threads."
    return joined([element("pre", commands), element("p", note)])
