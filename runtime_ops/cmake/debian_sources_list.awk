# One-line sources ("deb [options] URI bookworm main"): keeps those of a Debian release and replaces the suite.
$1 == "deb" {
  at = 2
  if ($at ~ /^\[/) {
    while ($at !~ /\]$/ && at < NF) ++at
    ++at
  }
  if ($(at + 1) ~ /^(bullseye|bookworm|trixie|forky|duke|oldstable|stable|testing|unstable|sid)$/) {
    $(at + 1) = suite
    if (!seen[$0]++) print
  }
}
