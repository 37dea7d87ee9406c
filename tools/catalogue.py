"""Every tool there is, in one list."""

from .base import Tool
from .command.bash import bash
from .command.run_script import run_script
from .command.shell import shell
from .data.csv_read import csv_read
from .data.csv_write import csv_write
from .data.json_query import json_query
from .data.toml_query import toml_query
from .data.yaml_query import yaml_query
from .edit.create_directory import create_directory
from .edit.delete_file import delete_file
from .edit.edit_file import edit_file
from .edit.edit_lines import edit_lines
from .edit.move_file import move_file
from .edit.multi_edit import multi_edit
from .edit.replace_in_files import replace_in_files
from .edit.undo import undo
from .edit.write_file import write_file
from .git.git_blame import git_blame
from .git.git_branch import git_branch
from .git.git_diff import git_diff
from .git.git_grep import git_grep
from .git.git_log import git_log
from .git.git_show import git_show
from .git.git_status import git_status
from .process.process_input import process_input
from .process.process_kill import process_kill
from .process.process_list import process_list
from .process.process_output import process_output
from .process.process_start import process_start
from .read.file_info import file_info
from .read.glob import glob
from .read.grep_files import grep_files
from .read.list_directory import list_directory
from .read.read_file import read_file
from .read.tree import tree
from .sandbox.run_node import run_node
from .sandbox.run_python import run_python
from .sandbox.run_ruby import run_ruby
from .sandbox.run_rust import run_rust
from .util.calculator import calculator
from .util.date_time import date_time
from .util.diff import diff
from .util.todo_write import todo_write
from .verify.bundle import bundle
from .verify.lint import lint
from .verify.python_tests import python_tests
from .verify.run_tests import run_tests

TOOLS: tuple[Tool, ...] = (
    bash,
    bundle,
    calculator,
    create_directory,
    csv_read,
    csv_write,
    date_time,
    delete_file,
    diff,
    edit_file,
    edit_lines,
    file_info,
    git_blame,
    git_branch,
    git_diff,
    git_grep,
    git_log,
    git_show,
    git_status,
    glob,
    grep_files,
    json_query,
    lint,
    list_directory,
    move_file,
    multi_edit,
    process_input,
    process_kill,
    process_list,
    process_output,
    process_start,
    python_tests,
    read_file,
    replace_in_files,
    run_node,
    run_python,
    run_ruby,
    run_rust,
    run_script,
    run_tests,
    shell,
    todo_write,
    toml_query,
    tree,
    undo,
    write_file,
    yaml_query,
)
