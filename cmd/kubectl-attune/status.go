package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
)

func newStatus(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the policies, how they are doing, and what is held and why",
		Long: "Show the policies, how they are doing, and what is held and why.\n\n" +
			"A finding (exit code 2) is a policy that a person has to look after: one that is not ready for\n" +
			"another reason than too little data or a pause, one whose resizes are reverted too often, or one\n" +
			"that the operator has not looked at for 5 minutes.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runStatus(cmd.Context(), env) },
	}
}

func runStatus(ctx context.Context, env *environment) error {
	c, err := env.cluster.Client()
	if err != nil {
		return err
	}
	namespace, err := env.namespace()
	if err != nil {
		return err
	}
	selector, err := env.scope.labelSelector()
	if err != nil {
		return err
	}
	var policies v1alpha1.AttunePolicyList
	if err := c.List(ctx, &policies, within(namespace, selector)...); err != nil {
		return fmt.Errorf("listing the policies: %w", err)
	}
	var recs v1alpha1.AttuneRecommendationList
	if err := c.List(ctx, &recs, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("listing the recommendations: %w", err)
	}
	report := newStatusReport(policies.Items, recs.Items, env.now())
	if len(report.Policies) == 0 {
		env.note("there is no AttunePolicy in %s", where(namespace))
	}
	if err := env.print(report); err != nil {
		return err
	}
	return report.finding()
}

// statusReport is the answer of status.
type statusReport struct {
	Policies []policyStatus `json:"policies"`
}

type policyStatus struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Mode is empty until the operator has looked at the policy.
	Mode      string                  `json:"mode"`
	Workloads v1alpha1.WorkloadCounts `json:"workloads"`
	// Ready is True, False or Unknown.
	Ready   string `json:"ready"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// NeedsAttention: a person has to look after it.
	NeedsAttention bool              `json:"needsAttention"`
	Held           []heldThing       `json:"held"`
	Savings        *v1alpha1.Savings `json:"savings,omitempty"`

	created time.Time
	now     time.Time
}

// heldThing is one thing that is left as it is. Container and resource are empty where the whole
// workload is, and the workload where the whole policy is.
type heldThing struct {
	Workload  string `json:"workload"`
	Container string `json:"container"`
	Resource  string `json:"resource"`
	Reason    string `json:"reason"`
	Message   string `json:"message"`
}

func newStatusReport(policies []v1alpha1.AttunePolicy, recs []v1alpha1.AttuneRecommendation, now time.Time) statusReport {
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

func statusOf(policy *v1alpha1.AttunePolicy, recs []v1alpha1.AttuneRecommendation, now time.Time) policyStatus {
	s := policyStatus{
		Namespace: policy.Namespace,
		Name:      policy.Name,
		Mode:      string(policy.Status.Mode),
		Workloads: ptr.Deref(policy.Status.Workloads, v1alpha1.WorkloadCounts{}),
		Ready:     string(metav1.ConditionUnknown),
		Message:   "the operator has not looked at it yet",
		Held:      heldByPolicy(policy),
		Savings:   policy.Status.Savings,
		created:   policy.CreationTimestamp.Time,
		now:       now,
	}
	if ready := meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
		s.Ready, s.Reason, s.Message = string(ready.Status), ready.Reason, ready.Message
	}
	for i := range recs {
		if recs[i].Namespace == policy.Namespace && recs[i].Spec.Policy.Name == policy.Name {
			s.Held = append(s.Held, heldByWorkload(&recs[i])...)
		}
	}
	s.NeedsAttention = s.unseen() || s.broken() || meta.IsStatusConditionTrue(policy.Status.Conditions, v1alpha1.ConditionDegraded)
	return s
}

// unseenGrace is how long an operator that runs may take to look at a new policy.
const unseenGrace = 5 * time.Minute

func (s policyStatus) unseen() bool {
	return s.Ready == string(metav1.ConditionUnknown) && s.now.Sub(s.created) > unseenGrace
}

// broken is not ready for a reason that neither time heals nor somebody chose.
func (s policyStatus) broken() bool {
	return s.Ready == string(metav1.ConditionFalse) &&
		s.Reason != v1alpha1.ReasonInsufficientData && s.Reason != v1alpha1.ReasonPaused
}

func (r statusReport) finding() error {
	for _, s := range r.Policies {
		if s.NeedsAttention {
			return errFinding
		}
	}
	return nil
}

// Human implements document.
func (r statusReport) Human(w io.Writer, wide bool) error {
	if len(r.Policies) == 0 {
		return nil
	}
	if err := r.policies(wide).write(w); err != nil {
		return err
	}
	held := r.held()
	if len(held.rows) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	return held.write(w)
}

func (r statusReport) policies(wide bool) table {
	t := table{header: []string{"NAMESPACE", "POLICY", "MODE", "WORKLOADS", "RECS", "RESIZED", "PENDING", "HELD", "READY", "REASON", "AGE"}}
	if wide {
		t.header = append(t.header, "CPU SAVED", "MEM SAVED", "MESSAGE")
	}
	for _, s := range r.Policies {
		row := []string{
			s.Namespace, s.Name, s.Mode, count(s.Workloads.Discovered), count(s.Workloads.WithRecommendations),
			count(s.Workloads.Resized), count(s.Workloads.Pending), strconv.Itoa(len(s.Held)), s.Ready, s.Reason,
			duration.HumanDuration(s.now.Sub(s.created)),
		}
		if wide {
			row = append(row, s.cpuSaved(), s.memorySaved(), s.Message)
		}
		t.add(row...)
	}
	return t
}

func (r statusReport) held() table {
	t := table{header: []string{"POLICY", "HELD", "CONTAINER", "RESOURCE", "REASON", "WHY"}}
	for _, s := range r.Policies {
		for _, h := range s.Held {
			t.add(s.Namespace+"/"+s.Name, h.Workload, h.Container, h.Resource, h.Reason, h.Message)
		}
	}
	return t
}

func (s policyStatus) cpuSaved() string {
	if s.Savings == nil {
		return ""
	}
	return s.Savings.CPURequestReduction.String()
}

func (s policyStatus) memorySaved() string {
	if s.Savings == nil {
		return ""
	}
	return s.Savings.MemoryRequestReduction.String()
}

func count(n int32) string { return strconv.Itoa(int(n)) }
