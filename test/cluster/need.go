package cluster

import "os"

// RequireKubelet is the variable that makes a test an error which would be skipped for want of a kubelet.
const RequireKubelet = "ATTUNE_REQUIRE_KUBELET"

// test is what Need asks of one.
type test interface {
	Helper()
	Skip(args ...any)
	Fatal(args ...any)
}

// Need skips a test by name, with the reason, where no kubelet can run on this machine. Where RequireKubelet is set, it
// fails: there a test that is skipped goes unnoticed.
func Need(t test) {
	t.Helper()
	need(t, Unavailable(), os.Getenv(RequireKubelet) != "")
}

func need(t test, missing string, required bool) {
	t.Helper()
	switch {
	case missing == "":
	case required:
		t.Fatal(missing + " (" + RequireKubelet + " is set)")
	default:
		t.Skip(missing)
	}
}
