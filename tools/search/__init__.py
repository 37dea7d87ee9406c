"""Searching contents and names: what grep_files, glob and replace_in_files share."""
