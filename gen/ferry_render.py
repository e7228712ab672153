# SPDX-License-Identifier: MIT
"""The one jinja environment: an undefined name is an error, and every template read is remembered."""

import os

import jinja2

from ferry_types import GeneratorError


class TemplateError(GeneratorError):
    """A template is missing or does not fit what the generator gives it."""


class RecordingLoader(jinja2.BaseLoader):
    """Loads templates from one folder and keeps the path of each, for the depfile."""

    def __init__(self, folder):
        self.folder = folder
        self.read_files = []

    def get_source(self, environment, template):
        path = os.path.join(self.folder, template)
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
        except OSError as error:
            raise TemplateError(f"{path}: cannot be read: {error.strerror}") from None
        if path not in self.read_files:
            self.read_files.append(path)
        return text, path, lambda: True


class Renderer:
    """Fills templates of one folder."""

    def __init__(self, folder):
        self.loader = RecordingLoader(folder)
        self.environment = jinja2.Environment(loader=self.loader, undefined=jinja2.StrictUndefined, trim_blocks=True,
                                              lstrip_blocks=True, keep_trailing_newline=True, autoescape=False)

    @property
    def read_files(self):
        return self.loader.read_files

    def render(self, template, **values):
        try:
            return self.environment.get_template(template).render(**values)
        except jinja2.TemplateError as error:
            where = f"{template}:{error.lineno}" if getattr(error, "lineno", None) else template
            raise TemplateError(f"{os.path.join(self.loader.folder, where)}: {error}") from None
