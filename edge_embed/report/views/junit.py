"""View of a check as JUnit XML for CI servers: one suite for each requirement, one case for each finding."""

from xml.etree import ElementTree

from edge_embed.report.results.check import EXIT_CODES, CheckReport
from edge_embed.report.results.finding import Finding
from edge_embed.report.results.growth import is_growth
from edge_embed.report.views.words import plain


def to_junit(report: CheckReport) -> str:
    """Return the text of the file, to be written as UTF-8."""
    suites = ElementTree.Element("testsuites", name="edge-embed check")
    for requirement in EXIT_CODES:
        found = [finding for finding in report.findings if finding.requirement == requirement]
        counts = {
            "tests": len(found),
            "failures": sum(finding.status == "failed" for finding in found),
            "errors": sum(finding.is_missing for finding in found),
            "skipped": sum(finding.status == "not run" and not finding.must_run for finding in found),
        }
        attributes = {"name": requirement} | {name: str(count) for name, count in counts.items()}
        suite = ElementTree.SubElement(suites, "testsuite", attributes)
        for finding in found:
            _add_case(suite, finding, report.growth() if is_growth(finding) else "")
    ElementTree.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suites, encoding="unicode") + "\n"


def _add_case(suite: ElementTree.Element, finding: Finding, why: str) -> None:
    classname = f"edge-embed.{finding.requirement}"
    case = ElementTree.SubElement(suite, "testcase", classname=classname, name=plain(finding.name))
    detail = plain(finding.detail)
    if finding.status == "failed":
        ElementTree.SubElement(case, "failure", type=finding.requirement, message=detail).text = plain(why) or None
    elif finding.is_missing:
        ElementTree.SubElement(case, "error", type="not run", message=detail)
    elif finding.status == "not run":
        ElementTree.SubElement(case, "skipped", message=detail)
    else:
        ElementTree.SubElement(case, "system-out").text = detail
