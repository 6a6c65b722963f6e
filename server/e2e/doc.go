// Package e2e tests the dashboard in a browser: Debian's chromium, steered over its own
// protocol, on a server whose store the tests have filled. It has no code of its own to
// import.
//
// Every page must render without an error on the console, a violation of the content
// security policy, or a request to another origin; axe-core must find nothing in either
// colour scheme; and each page must be usable by keys alone.
//
// Without a browser the tests are skipped with a message; STET_TEST_STRICT=1 makes that a
// failure. STET_E2E_PICTURES=DIR keeps a picture of each page there.
package e2e
