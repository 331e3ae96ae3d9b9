package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/cmd/kubectl-attune/output"
	"attune.io/attune/internal/answers"
	"attune.io/attune/internal/lookup"
	"attune.io/attune/internal/workload"
)

// newStatus returns the command status. It needs the rights to list AttunePolicies and AttuneRecommendations. -l
// selects policies here; for most other verbs it selects workloads. It takes no arguments.
func newStatus(env *environment) *cobra.Command {
	var operator string
	command := env.watched(&cobra.Command{
		Use:   "status",
		Short: "Show policies, and why workloads are blocked or skipped",
		Long: "Show policies, and why workloads are blocked or skipped.\n\n" +
			"The exit code is 2 if a policy needs attention: it is not ready (except for InsufficientData or\n" +
			"Paused), its resizes are reverted too often, or the operator has not reconciled it within\n" +
			"5 minutes of its creation; or if the operator is not running.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("status takes no arguments, but got %q: for one workload, use kubectl attune explain KIND/NAME", args[0])
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return runStatus(cmd.Context(), env, operator) },
	})
	command.Flags().StringVar(&operator, "operator-namespace", "attune-system", "Namespace of the operator")
	return command
}

// runStatus lists the policies and recommendations of the scope, prints the report and returns its finding. -l selects
// policies here, not workloads.
func runStatus(ctx context.Context, env *environment, operator string) error {
	r, err := env.reach()
	if err != nil {
		return err
	}
	var list v1alpha1.AttunePolicyList
	if err := r.List(ctx, &list, within(r.namespace, r.selector)...); err != nil {
		return fmt.Errorf("listing the policies: %w", err)
	}
	// List all recommendations, because -l selects by the labels of policies.
	var recs v1alpha1.AttuneRecommendationList
	if err := r.List(ctx, &recs, client.InNamespace(r.namespace)); err != nil {
		return fmt.Errorf("listing the recommendations: %w", err)
	}
	clusters, err := lookup.PoliciesInScope(ctx, policies(r), r.namespace, r.selector, recs.Items)
	if err != nil {
		env.printNote("cluster policies are not shown: %v", err)
	}
	// Print the report before returning the finding, so that a CI job shows it in its log.
	report := newStatusReport(append(list.Items, clusters...), recs.Items, env.now())
	lease, renewed, err := readLease(ctx, r, operator, env)
	report.Operator = answers.HeartbeatOf(operator, lease, err, renewed, env.now())
	if len(report.Policies) == 0 {
		env.printNote("no policies found in %s: create one, for example with kubectl attune wizard", output.Where(r.namespace))
	}
	if err := env.print(report); err != nil {
		return err
	}
	return report.finding()
}

// statusReport is the answer of status. Its JSON, with -o json:
//
//	{"operator": {"state": "Running"},
//	 "policies": [{
//	  "namespace": "shop", "name": "web", "mode": "Auto",
//	  "workloads": {"discovered": 3},
//	  "ready": "False", "reason": "InvalidConfig", "message": "…",
//	  "needsAttention": true,
//	  "blocked": [{"workload": "Deployment/web", "container": "app",
//	    "resource": "memory", "reason": "AllowDecrease", "message": "…"}],
//	  "granted": [{"workload": "Deployment/web", "container": "app", "resource": "cpu", "proof": "Keep",
//	    "hpas": ["web"], "least": "462m", "most": "1", "since": "…", "validUntil": "…", "message": "…"}],
//	  "nextResizes": [{"workload": "Deployment/web", "at": "2026-03-02T13:00:00Z",
//	    "reason": "CooldownActive"}]
//	}]}
type statusReport struct {
	// Operator says whether the operator runs. If it does not run, the rest is out of date.
	Operator answers.Heartbeat `json:"operator"`
	// Policies are sorted by namespace and name; never nil.
	Policies []policyStatus `json:"policies"`
}

// policyStatus is one policy of the report.
type policyStatus struct {
	// Namespace and Name identify the policy. A cluster policy has no namespace, and its name is
	// AttuneClusterPolicy/NAME.
	Namespace string `json:"namespace"`
	// Name of the policy.
	Name string `json:"name"`
	// Mode is empty until the operator has reconciled the policy.
	Mode string `json:"mode"`
	// Admission is Disabled if no new pods are sized because of the setting admission, although the mode sizes them.
	Admission string `json:"admission,omitempty"`
	// Workloads has the counts of the policy's status; zero until the operator has reconciled it.
	Workloads v1alpha1.WorkloadCounts `json:"workloads"`
	// Readiness comes from the conditions. A policy that needs attention is a finding.
	answers.Readiness
	// Blocked lists the blocked resources and conflicts of the policy; never nil.
	Blocked []answers.Blocked `json:"blocked"`
	// Granted lists the requests that change although a HorizontalPodAutoscaler scales on them; never nil.
	Granted []answers.Granted `json:"granted"`
	// NextResizes has the workloads with a planned resize of a running pod, the earliest first; never nil.
	NextResizes []nextResize `json:"nextResizes"`
	// Savings are the savings in the policy's status; nil if it has none.
	Savings *v1alpha1.Savings `json:"savings,omitempty"`

	// age is the age of the policy at the time of the report.
	age string
}

// nextResize says when the next resize of one workload may start.
type nextResize struct {
	// Workload is KIND/NAME.
	Workload string `json:"workload"`
	v1alpha1.NextResize

	// in is the time until then at the time of the report.
	in string
}

// mostShown limits the rows of next resizes, and those of granted requests, without -o wide.
const mostShown = 20

// newStatusReport builds the report. It sorts both lists in place.
func newStatusReport(policies []v1alpha1.AttunePolicy, recs []v1alpha1.AttuneRecommendation, now time.Time) statusReport {
	// The order is fixed, so that users can compare two outputs.
	slices.SortFunc(policies, func(a, b v1alpha1.AttunePolicy) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	slices.SortFunc(recs, byWorkload)
	report := statusReport{Policies: []policyStatus{}}
	for i := range policies {
		report.Policies = append(report.Policies, statusOf(&policies[i], recs, now))
	}
	return report
}

// statusOf reports one policy. A recommendation belongs to the policy that its spec names.
func statusOf(policy *v1alpha1.AttunePolicy, recs []v1alpha1.AttuneRecommendation, now time.Time) policyStatus {
	s := policyStatus{
		Namespace: policy.Namespace,
		Name:      policy.Name,
		Mode:      string(policy.Status.Mode),
		Admission: string(policy.Status.Admission),
		Workloads: ptr.Deref(policy.Status.Workloads, v1alpha1.WorkloadCounts{}),
		Readiness: answers.ReadinessOf(policy, now),
		Blocked:   answers.BlockedOfPolicy(policy),
		Savings:   policy.Status.Savings,
		age:       duration.HumanDuration(now.Sub(policy.CreationTimestamp.Time)),

		Granted:     []answers.Granted{},
		NextResizes: []nextResize{},
	}
	for i := range recs {
		if !lookup.SizedBy(&recs[i], policy) {
			continue
		}
		s.Blocked = append(s.Blocked, answers.BlockedOfWorkload(&recs[i])...)
		s.Granted = append(s.Granted, answers.GrantedOfWorkload(&recs[i])...)
		if next := recs[i].Status.NextResize; next != nil {
			s.NextResizes = append(s.NextResizes, nextResize{workload.IdentityOf(&recs[i]).String(), *next, answers.DueIn(next.At, now)})
		}
	}
	slices.SortStableFunc(s.NextResizes, earlier)
	return s
}

// earlier orders resizes by time; those without a time are last.
func earlier(a, b nextResize) int {
	switch {
	case a.At != nil && b.At != nil:
		return a.At.Compare(b.At.Time)
	case a.At != nil:
		return -1
	case b.At != nil:
		return 1
	}
	return 0
}

// finding returns errFinding if any policy needs attention, or the operator is not running.
func (r statusReport) finding() error {
	if r.Operator.State == answers.NotRunning || slices.ContainsFunc(r.Policies, func(s policyStatus) bool { return s.NeedsPerson }) {
		return errFinding
	}
	return nil
}

// Human implements document. It writes a line about the operator unless it runs, a table of policies, and below it
// tables of blocked resources, granted requests and next resizes. Without a policy it writes nothing unless the operator is not running: the note on stderr
// says so.
func (r statusReport) Human(wide bool) (string, error) {
	head := ""
	switch r.Operator.State {
	case answers.NotRunning:
		head = r.Operator.Message + ": the state below is of that time\n\n"
	case answers.UnknownState:
		head = r.Operator.Message + "\n\n"
	}
	if len(r.Policies) == 0 {
		if r.Operator.State == answers.NotRunning {
			return r.Operator.Message + "\n", nil
		}
		return "", nil
	}
	return head + output.Text(r.policies(), wide) + output.Below(r.blocked(), wide) + output.Below(r.granted(wide), wide) + output.Below(r.nextResizes(wide), wide), nil
}

// policies returns the table of policies.
func (r statusReport) policies() answers.Table {
	t := answers.Table{
		Header:   []string{"NAMESPACE", "POLICY", "MODE", "WORKLOADS", "RECS", "RESIZED", "PENDING", "BLOCKED", "READY", "REASON", "AGE", "CPU SAVINGS", "MEM SAVINGS", "MESSAGE"},
		OnlyWide: []string{"CPU SAVINGS", "MEM SAVINGS", "MESSAGE"},
	}
	for _, s := range r.Policies {
		cpu, memory := "", ""
		if s.Savings != nil {
			cpu, memory = s.Savings.CPURequestReduction.String(), s.Savings.MemoryRequestReduction.String()
		}
		t.Add(s.Namespace, s.Name, answers.ModeWith(s.Mode, s.Admission), count(s.Workloads.Discovered), count(s.Workloads.WithRecommendations),
			count(s.Workloads.Resized), count(s.Workloads.Pending), strconv.Itoa(len(s.Blocked)), s.Ready, s.Reason,
			s.age, cpu, memory, s.Message)
	}
	return t
}

// blocked returns the table of blocked resources.
func (r statusReport) blocked() answers.Table {
	t := answers.Table{Header: []string{"POLICY", "BLOCKED", "CONTAINER", "RESOURCE", "REASON", "WHY"}}
	for _, s := range r.Policies {
		for _, h := range s.Blocked {
			t.Add(strings.TrimPrefix(s.Namespace+"/"+s.Name, "/"), h.Workload, h.Container, h.Resource, h.Reason, h.Message)
		}
	}
	return t
}

// nextResizes returns the table of next resizes, the earliest first within a policy.
func (r statusReport) nextResizes(wide bool) answers.Table {
	t := answers.Table{Header: []string{"POLICY", "WORKLOAD", "NEXT RESIZE", "REASON"}}
	for _, s := range r.Policies {
		for _, next := range s.NextResizes {
			t.Add(strings.TrimPrefix(s.Namespace+"/"+s.Name, "/"), next.Workload, next.in, next.Reason)
		}
	}
	return shortened(t, wide)
}

// granted returns the table of the requests that change although an HPA scales on them.
func (r statusReport) granted(wide bool) answers.Table {
	t := answers.Table{Header: []string{"POLICY", "GRANTED", "CONTAINER", "RESOURCE", "PROOF", "WHY"}}
	for _, s := range r.Policies {
		for _, g := range s.Granted {
			t.Add(strings.TrimPrefix(s.Namespace+"/"+s.Name, "/"), g.Workload, g.Container, g.Resource, g.Proof, g.Message)
		}
	}
	return shortened(t, wide)
}

// shortened leaves mostShown rows, and says in the second column how many it leaves out.
func shortened(t answers.Table, wide bool) answers.Table {
	if more := len(t.Rows) - mostShown; more > 0 && !wide {
		row := make([]string, len(t.Header))
		row[1] = fmt.Sprintf("and %d more", more)
		t.Rows = append(t.Rows[:mostShown], row)
	}
	return t
}

// count formats a number of workloads.
func count(n int32) string { return strconv.Itoa(int(n)) }
