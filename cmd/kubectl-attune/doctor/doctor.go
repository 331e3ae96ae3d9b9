// Package doctor judges whether everything that attune needs is there. It is pure: its caller reads the cluster, Examine
// judges what was read, and the answer says it in one sentence for each finding.
//
// Its parts:
//   - platform.go, operator.go, webhook.go: what attune rests on.
//   - policies.go, neighbours.go: what its policies meet.
//
// A check is never ok because something could not be read: it is unknown then.
package doctor

import (
	"fmt"
	"iter"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/cmd/kubectl-attune/output"
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
	return grant("attune-doctor-"+f.check, "get,list", strings.Join(resources, ","), "")
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
		f := &findings{check: check.name, left: map[Level]int{}}
		check.run(seen, f)
		answer.Checks = append(answer.Checks, f.done()...)
	}
	counts := map[Level]*int{OK: &answer.OK, Warning: &answer.Warnings, Problem: &answer.Problems, Unknown: &answer.Unknown}
	for _, r := range answer.Checks {
		*counts[r.Result]++
	}
	return answer
}

// indent is where sentences and commands begin: behind the result and the check.
const indent = 23

// Human writes a result in each paragraph, the command that mends it below, and at last how many there are of each kind.
// Commands are wider than a table where they have to be, so that they can be copied. wide changes nothing.
func (a Answer) Human(bool) (string, error) {
	var text strings.Builder
	for _, r := range a.Checks {
		for i, line := range output.Wrapped(r.Sentence, output.MostColumns-indent) {
			head := ""
			if i == 0 {
				head = fmt.Sprintf("%-8s %-12s", r.Result, r.Check)
			}
			fmt.Fprintf(&text, "%-*s%s\n", indent, head, line)
		}
		if r.Command != "" {
			fmt.Fprintf(&text, "%*s$ %s\n", indent, "", r.Command)
		}
	}
	fmt.Fprintf(&text, "\n%d ok, %d warning%s, %d problem%s, %d unknown\n", a.OK, a.Warnings, plural(a.Warnings), a.Problems, plural(a.Problems), a.Unknown)
	return text.String(), nil
}

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}

// Read is what was read of one kind, or why it could not be.
type Read[T any] struct {
	Value []T
	Err   error
}

// all yields the objects in their order.
func (r Read[T]) all() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for i := range r.Value {
			if !yield(&r.Value[i]) {
				return
			}
		}
	}
}

// Scope is where the doctor looks.
type Scope struct {
	// Now is the time from which ages count.
	Now time.Time
	// Namespace whose policies and neighbours are looked at; empty: all of them.
	Namespace string
	// Operator is the namespace of the operator.
	Operator string
}

// Seen is all that the doctor has looked at. It is only read.
type Seen struct {
	Scope
	// Version of the API server, such as v1.36.2.
	Version string
	// Nodes of the cluster.
	Nodes Read[corev1.Node]
	// CRDs are the CustomResourceDefinitions of all groups, without their schemas.
	CRDs Read[metav1.PartialObjectMetadata]
	// Rights of the caller, as the API server judges them.
	Rights []Right
	// Operator is what runs in the operator's namespace.
	Installed Installed
	// Admission is what judges or changes objects.
	Admission Admission
	// Policies and Recommendations of the scope.
	Policies        Read[v1alpha1.AttunePolicy]
	Recommendations Read[v1alpha1.AttuneRecommendation]
	// ClusterPolicies of the cluster; none where they may not be read, or the API server does not serve them.
	ClusterPolicies []v1alpha1.AttuneClusterPolicy
	// Namespaces of the scope.
	Namespaces Read[corev1.Namespace]
	// Neighbours are other objects of the scope.
	Neighbours Neighbours
}

// Installed is what runs in the operator's namespace.
type Installed struct {
	Deployments Read[appsv1.Deployment]
	Slices      Read[discoveryv1.EndpointSlice]
	// Leases are the one by which the replicas choose their leader; none where there is none.
	Leases Read[coordinationv1.Lease]
}

// Admission is what judges or changes objects when they are written.
type Admission struct {
	Mutating   Read[admissionv1.MutatingWebhookConfiguration]
	Validating Read[admissionv1.ValidatingWebhookConfiguration]
	Policies   Read[admissionv1.ValidatingAdmissionPolicy]
}

// Neighbours are objects that act on the same pods.
type Neighbours struct {
	VPAs   Read[unstructured.Unstructured]
	HPAs   Read[autoscalingv2.HorizontalPodAutoscaler]
	Quotas Read[corev1.ResourceQuota]
	Pods   Read[corev1.Pod]
}
