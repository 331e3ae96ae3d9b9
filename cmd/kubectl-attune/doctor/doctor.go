// Package doctor judges whether everything that attune needs is there. It is pure: package look reads the cluster, Examine
// judges what was read, and the answer says it in one sentence for each finding.
//
// Its parts:
//   - seen.go: what is looked at.
//   - platform.go, rights.go, operator.go, webhook.go: what attune rests on.
//   - policies.go, neighbours.go, bridge.go: what its policies meet.
//   - human.go: the answer for people.
//
// A check is never ok because something could not be read: it is unknown then.
package doctor

import (
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
)

// Level is how serious a result is.
type Level string

const (
	// OK: nothing is to be done.
	OK Level = "ok"
	// Warning: something works less well than it could.
	Warning Level = "warning"
	// Problem: something does not work.
	Problem Level = "problem"
	// Unknown: it could not be looked at.
	Unknown Level = "unknown"
)

// Answer is what the doctor found.
// Its JSON, with -o json:
//
//	{"checks": [{
//	  "check": "kubelets", "result": "warning", "sentence": "…",
//	  "command": "kubectl get nodes -o wide"
//	}],
//	 "ok": 9, "warnings": 1, "problems": 0, "unknown": 2}
type Answer struct {
	// Checks are the results, in the order of the checks; never nil. A check has one result or several.
	Checks []Result `json:"checks"`
	// OK, Warnings, Problems and Unknown count the results.
	OK       int `json:"ok"`
	Warnings int `json:"warnings"`
	Problems int `json:"problems"`
	Unknown  int `json:"unknown"`
}

// Result is one sentence about one thing.
type Result struct {
	// Check is its name in one word.
	Check  string `json:"check"`
	Result Level  `json:"result"`
	// Sentence says what was found.
	Sentence string `json:"sentence"`
	// Command mends it, or shows more where no single command can; empty where nothing is to be done.
	Command string `json:"command"`
}

// most is how many results a check has at most: a cluster may have thousands of the same kind.
const most = 5

// findings are the results of one check.
type findings struct {
	check string
	// of are the results, left is how many of which level were left out.
	of   []Result
	left map[Level]int
	// barred are the kinds that the user may not read.
	barred []string
}

// add appends a result. Of each level most are kept.
func (f *findings) add(level Level, command, sentence string, args ...any) {
	same := 0
	for _, r := range f.of {
		if r.Result == level {
			same++
		}
	}
	if same >= most {
		if f.left == nil {
			f.left = map[Level]int{}
		}
		f.left[level]++
		return
	}
	f.of = append(f.of, Result{Check: f.check, Result: level, Sentence: fmt.Sprintf(sentence, args...), Command: command})
}

// fine is the result of a check that has found nothing.
func (f *findings) fine(sentence string, args ...any) {
	if len(f.of) == 0 && len(f.barred) == 0 {
		f.add(OK, "", sentence, args...)
	}
}

// done returns the results, and how many there are more.
func (f *findings) done() []Result {
	if f.barred != nil {
		f.add(Unknown, f.granted(), "you may not read %s", strings.Join(f.barred, " and "))
	}
	for _, level := range []Level{Problem, Warning, Unknown, OK} {
		if n := f.left[level]; n > 0 {
			f.of = append(f.of, Result{Check: f.check, Result: level, Sentence: fmt.Sprintf("and %d more of this kind", n)})
		}
	}
	return f.of
}

// unreadable notes that something could not be read; false: it was read. The first word of what is the name of the kind in
// the plural.
func (f *findings) unreadable(what string, err error) bool {
	switch {
	case err == nil:
		return false
	case apierrors.IsForbidden(err):
		f.barred = append(f.barred, what)
	case meta.IsNoMatchError(err):
		f.add(Unknown, "", "the cluster does not know %s", what)
	default:
		f.add(Unknown, "", "%s could not be read: %v", what, err)
	}
	return true
}

// granted is the command of an administrator that lets the user NAME read what the check could not.
func (f *findings) granted() string {
	resources := make([]string, len(f.barred))
	for i, what := range f.barred {
		resources[i], _, _ = strings.Cut(strings.ToLower(what), " ")
	}
	role := "attune-doctor-" + f.check
	return "kubectl create clusterrole " + role + " --verb=get,list --resource=" + strings.Join(resources, ",") +
		" && kubectl create clusterrolebinding " + role + " --clusterrole=" + role + " --user=NAME"
}

// checks in the order of the answer.
var checks = []struct {
	name string
	run  func(*Seen, *findings)
}{
	{"kubernetes", kubernetes}, {"kubelets", kubelets}, {"crds", crds}, {"rights", rights}, {"operator", operator},
	{"webhook", webhook}, {"certificate", certificate}, {"endpoints", endpoints},
	{"policies", policies}, {"usage", usage}, {"namespaces", namespaces},
	{"vpa", verticalAutoscalers}, {"bridge", published}, {"hpa", horizontalAutoscalers}, {"quota", quotas}, {"engines", engines},
}

// Examine judges what was seen.
func Examine(seen *Seen) Answer {
	answer := Answer{Checks: []Result{}}
	for _, check := range checks {
		f := &findings{check: check.name}
		check.run(seen, f)
		answer.Checks = append(answer.Checks, f.done()...)
	}
	for _, r := range answer.Checks {
		switch r.Result {
		case OK:
			answer.OK++
		case Warning:
			answer.Warnings++
		case Problem:
			answer.Problems++
		case Unknown:
			answer.Unknown++
		}
	}
	return answer
}
