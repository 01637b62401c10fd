"""Keep one comment on a pull request that says what vllm-doctor found: the last step of action.yml, with a token.

The first run with a finding writes it; later runs update it, also when the failure is gone. Only a comment that this
token wrote is ever changed. What GitHub refuses is a warning, and never fails the job.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from vllm_doctor.reports.escape import workflow_data

MARK = "<!-- vllm-doctor{key} -->"
LIMIT = 65_000  # characters; GitHub takes 65,536
PAGES = 20  # of a hundred comments
SECONDS = 20
FIND = """query($owner: String!, $name: String!, $number: Int!, $after: String) {
  repository(owner: $owner, name: $name) { pullRequest(number: $number) { id
    comments(first: 100, after: $after) { pageInfo { hasNextPage endCursor } nodes { id body viewerDidAuthor } } } } }"""
ADD = "mutation($id: ID!, $body: String!) { addComment(input: {subjectId: $id, body: $body}) { clientMutationId } }"
UPDATE = "mutation($id: ID!, $body: String!) { updateIssueComment(input: {id: $id, body: $body}) { clientMutationId } }"


class RefusedError(Exception):
    """GitHub did not do what was asked."""


def main() -> int:
    """Write or update the comment; return 0."""
    try:
        number = pull_request()
        if number:
            keep(number, Path(os.environ["REPORT"]).with_name("report.md").read_text(encoding="utf-8"),
                 is_failure=os.environ.get("STATUS", "0") != "0")
    except (RefusedError, OSError, ValueError, KeyError, TypeError) as error:
        text = f"no comment on the pull request: {error if isinstance(error, RefusedError) else type(error).__name__}"
        print(f"::warning title=vllm-doctor::{workflow_data(text)}", flush=True)
    return 0


def pull_request() -> int:
    """Return the number of the pull request that this run is for; 0 for any other run."""
    event = json.loads(Path(os.environ["GITHUB_EVENT_PATH"]).read_text(encoding="utf-8"))
    return int((event.get("pull_request") or {}).get("number", 0))


def keep(number: int, report: str, *, is_failure: bool) -> None:
    """Update the comment, or write it if there is a failure. Raises RefusedError."""
    mark = MARK.format(key=f" {key}" if (key := os.environ.get("COMMENT_KEY", "")).isidentifier() else "")
    pull_id, comment_id = find(number, mark)
    if comment_id:
        ask(UPDATE, id=comment_id, body=body(mark, report))
    elif is_failure:
        ask(ADD, id=pull_id, body=body(mark, report))


def find(number: int, mark: str) -> tuple[str, str]:
    """Return the ids of the pull request and of our comment on it ("" if there is none). Raises RefusedError."""
    owner, _, name = os.environ["GITHUB_REPOSITORY"].partition("/")
    after, pull_id = None, ""
    for _ in range(PAGES):
        pull = ask(FIND, owner=owner, name=name, number=number, after=after)["repository"]["pullRequest"]
        pull_id, comments = pull["id"], pull["comments"]
        for comment in comments["nodes"]:
            if comment["viewerDidAuthor"] and comment["body"].startswith(mark):
                return pull_id, comment["id"]
        if not comments["pageInfo"]["hasNextPage"]:
            break
        after = comments["pageInfo"]["endCursor"]
    return pull_id, ""


def body(mark: str, report: str) -> str:
    """Return the comment: the report's paragraphs, as many as fit."""
    if len(report) > LIMIT:
        report = "(cut: the job's summary has all of it)\n\n" + report[:report.rfind("\n\n", 0, LIMIT)]
    return f"{mark}\n{report}"


def ask(query: str, **variables: Any) -> dict[str, Any]:
    """Return the answer of GitHub's GraphQL interface. Raises RefusedError."""
    url = os.environ.get("GITHUB_GRAPHQL_URL", "https://api.github.com/graphql")
    request = urllib.request.Request(  # noqa: S310 - the runner's own address
        url, json.dumps({"query": query, "variables": variables}).encode(),
        {"Authorization": f"Bearer {os.environ['COMMENT_TOKEN']}", "Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:  # noqa: S310
            document = json.load(answer)
    except urllib.error.HTTPError as error:
        raise RefusedError(f"HTTP status {error.code}") from error
    if document.get("errors"):
        raise RefusedError(str(document["errors"][0].get("message", ""))[:200])
    data: dict[str, Any] = document["data"]
    return data


if __name__ == "__main__":
    sys.exit(main())
