# Paragraphs of deb822 sources ("Suites: bookworm bookworm-updates"): keeps those of a Debian release and
# replaces the suite. Comments and disabled paragraphs are removed.
function flush() {
  if (text != "" && packages && release && !off) print text
  text = ""
  packages = release = off = 0
}

/^[ \t]*$/ { flush(); next }
/^#/ { next }
tolower($1) == "types:" && /[ \t:]deb([ \t]|$)/ { packages = 1 }
tolower($1) == "enabled:" && tolower($2) ~ /^(no|false|off|0)$/ { off = 1 }
tolower($1) == "suites:" {
  for (i = 2; i <= NF; ++i) {
    if ($i ~ /^(bullseye|bookworm|trixie|forky|duke|oldstable|stable|testing|unstable|sid)$/) release = 1
  }
  $0 = "Suites: " suite
}
{ text = text $0 "\n" }
END { flush() }
