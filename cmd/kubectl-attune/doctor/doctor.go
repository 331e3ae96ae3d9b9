// Package doctor checks the requirements of attune. It is pure: the caller reads the cluster, Examine checks the
// objects, and the answer has one sentence for each finding.
//
// Its parts:
//   - platform.go, operator.go, webhook.go, reach.go: what attune needs to run.
//   - policies.go, workloads.go, neighbours.go: policies, their workloads, and other objects that act on the same pods.
//
// A check whose objects could not be read is unknown, never ok.
package doctor

import (
	"fmt"
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
	"attune.io/attune/internal/answers"
	"attune.io/attune/podview"
)

// Level is the severity of a result.
type Level string

const (
	// OK means that no action is needed.
	OK Level = "ok"
	// Warning means that something works less well than it could.
	Warning Level = "warning"
	// Problem means that something does not work.
	Problem Level = "problem"
	// Unknown means that it could not be checked.
	Unknown Level = "unknown"
)

// Answer is the answer of the doctor. Its JSON, with -o json:
//
//	{"checks": [{
//	  "check": "kubelets", "result": "warning", "sentence": "…",
//	  "command": "kubectl get nodes -o wide"
//	}],
//	 "ok": 9, "warnings": 1, "problems": 0, "unknown": 2}
type Answer struct {
	// Checks has the results in the order of the checks; never nil. A check has one or more results.
	Checks []Result `json:"checks"`
	// OK, Warnings, Problems and Unknown count the results.
	OK       int `json:"ok"`
	Warnings int `json:"warnings"`
	Problems int `json:"problems"`
	Unknown  int `json:"unknown"`
}

// Result is one sentence of a check.
type Result struct {
	// Check is the name of the check, one word.
	Check  string `json:"check"`
	Result Level  `json:"result"`
	// Sentence states the finding.
	Sentence string `json:"sentence"`
	// Command fixes it, or shows more if no single command can; empty if no action is needed.
	Command string `json:"command"`
}

// most limits the results of a check per level, because a cluster may have thousands of the same kind.
const most = 5

// findings collects the results of one check.
type findings struct {
	check string
	// of has the results. left counts the omitted ones by level.
	of   []Result
	left map[Level]int
	// barred lists the kinds that the user may not read.
	barred []string
}

// add appends a result. It keeps at most most results of each level.
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

// fine adds the result of a check without findings.
func (f *findings) fine(sentence string, args ...any) {
	if len(f.of) == 0 && len(f.barred) == 0 {
		f.add(OK, "", sentence, args...)
	}
}

// done returns the results, and the number of omitted ones.
func (f *findings) done() []Result {
	if f.barred != nil {
		f.add(Unknown, f.granted(), "missing permission to read %s", strings.Join(f.barred, " and "))
	}
	for _, level := range []Level{Problem, Warning, Unknown, OK} {
		if n := f.left[level]; n > 0 {
			f.of = append(f.of, Result{Check: f.check, Result: level, Sentence: fmt.Sprintf("and %d more of this kind", n)})
		}
	}
	return f.of
}

// unreadable records an error of reading and reports whether there is one. The first word of what is the plural name
// of the kind.
func (f *findings) unreadable(what string, err error) bool {
	switch {
	case err == nil:
		return false
	case apierrors.IsForbidden(err):
		f.barred = append(f.barred, what)
	case meta.IsNoMatchError(err):
		f.add(Unknown, "", "the API server does not serve %s", what)
	default:
		f.add(Unknown, "", "cannot read %s: %v", what, err)
	}
	return true
}

// granted returns the administrator's command that lets the user NAME read the objects of the check.
func (f *findings) granted() string {
	resources := make([]string, len(f.barred))
	for i, what := range f.barred {
		resources[i], _, _ = strings.Cut(strings.ToLower(what), " ")
	}
	return grant("attune-doctor-"+f.check, "get,list", strings.Join(resources, ","), "")
}

// checks are in the order of the answer. stored ones check what the operator wrote.
var checks = []struct {
	name   string
	run    func(*Seen, *findings)
	stored bool
}{
	{"kubernetes", kubernetes, false}, {"kubelets", kubelets, false}, {"crds", crds, false}, {"rights", rights, false}, {"operator", operator, false},
	{"webhook", webhook, false}, {"certificate", certificate, false}, {"endpoints", endpoints, false}, {"reachable", reachable, false}, {"selectors", selectors, false},
	{"policies", policies, true}, {"usage", usage, true}, {"admission", withdrawn, true}, {"namespaces", namespaces, false}, {"rollouts", rollouts, false},
	{"vpa", verticalAutoscalers, false}, {"bridge", published, true}, {"hpa", horizontalAutoscalers, false}, {"quota", quotas, true}, {"engines", engines, false},
}

// Examine runs all checks.
func Examine(seen *Seen) Answer {
	answer := Answer{Checks: []Result{}}
	for _, check := range checks {
		f := &findings{check: check.name, left: map[Level]int{}}
		check.run(seen, f)
		results := f.done()
		if down := seen.heartbeat(); check.stored && down.State == answers.NotRunning {
			age(results, down.Message)
		}
		answer.Checks = append(answer.Checks, results...)
	}
	counts := map[Level]*int{OK: &answer.OK, Warning: &answer.Warnings, Problem: &answer.Problems, Unknown: &answer.Unknown}
	for _, r := range answer.Checks {
		*counts[r.Result]++
	}
	return answer
}

// age makes results unknown that the operator stored before it stopped.
func age(results []Result, down string) {
	for i := range results {
		r := &results[i]
		if r.Result != Unknown {
			r.Result, r.Sentence = Unknown, down+". Stored before: "+r.Sentence
		}
	}
}

// indent is the column of sentences and commands, after the result and the check.
const indent = 23

// Human writes a paragraph for each result with its command below, and the counts at the end. Commands may be wider
// than a table, so that users can copy them. wide changes nothing.
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
	fmt.Fprintf(&text, "\n%d ok, %s, %s, %d unknown\n", a.OK, answers.Counted(a.Warnings, "warning"), answers.Counted(a.Problems, "problem"), a.Unknown)
	return text.String(), nil
}

// Read has the objects of one kind, or the error of reading them.
type Read[T any] struct {
	Value []T
	Err   error
	// Cut is true if only the first objects were read.
	Cut bool
}

// pointer returns the first object, or nil.
func (r Read[T]) pointer() *T {
	if len(r.Value) == 0 {
		return nil
	}
	return &r.Value[0]
}

// all returns pointers to the objects, in their order.
func (r Read[T]) all() []*T { return podview.Pointers(r.Value) }

// Scope is the part of the cluster that the doctor checks.
type Scope struct {
	// Now is the reference time of ages.
	Now time.Time
	// Namespace limits the checked policies and neighbours; empty means all namespaces.
	Namespace string
	// Operator is the namespace of the operator.
	Operator string
}

// Seen has all objects that the doctor checks. The checks do not change it.
type Seen struct {
	Scope
	// Version is the version of the API server, such as v1.36.2.
	Version string
	// Nodes are all nodes of the cluster.
	Nodes Read[corev1.Node]
	// CRDs are the CustomResourceDefinitions of all groups, without their schemas.
	CRDs Read[metav1.PartialObjectMetadata]
	// Rights are the caller's rights with the API server's answers.
	Rights []Right
	// Installed has the objects in the operator's namespace.
	Installed Installed
	// Admission has the objects that validate or change other objects.
	Admission Admission
	// Probes are dry-run creations of objects by which the webhooks show that the API server reaches them.
	Probes Probes
	// Policies and Recommendations are limited to the scope.
	Policies        Read[v1alpha1.AttunePolicy]
	Recommendations Read[v1alpha1.AttuneRecommendation]
	// ClusterPolicies are all cluster policies; empty if the user may not read them, or the API server does not serve
	// them.
	ClusterPolicies []v1alpha1.AttuneClusterPolicy
	// Namespaces are the namespaces of the scope.
	Namespaces Read[corev1.Namespace]
	// Workloads are those of the scope whose rollout can stand.
	Workloads Workloads
	// Neighbours are other objects in the scope.
	Neighbours Neighbours
}

// Installed has the objects in the operator's namespace.
type Installed struct {
	Deployments Read[appsv1.Deployment]
	Slices      Read[discoveryv1.EndpointSlice]
	// Leases has the lease of the leader election; empty if it does not exist.
	Leases Read[coordinationv1.Lease]
	// Renewed is true if the lease was renewed between two reads, so that the clocks do not matter.
	Renewed bool
}

// Workloads are the kinds with a rollout.
type Workloads struct {
	Deployments  Read[appsv1.Deployment]
	StatefulSets Read[appsv1.StatefulSet]
	DaemonSets   Read[appsv1.DaemonSet]
}

// Admission has the objects that validate or change other objects at admission.
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
