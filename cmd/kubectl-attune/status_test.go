package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/answers"
)

func policyWith(age time.Duration, conditions ...metav1.Condition) v1alpha1.AttunePolicy {
	return v1alpha1.AttunePolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "p", CreationTimestamp: metav1.NewTime(testNow.Add(-age))},
		Status:     v1alpha1.AttunePolicyStatus{Conditions: conditions},
	}
}

func condition(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason}
}

func TestStatusFindsWhatNeedsAttention(t *testing.T) {
	ready := func(status metav1.ConditionStatus, reason string) metav1.Condition {
		return condition(v1alpha1.ConditionReady, status, reason)
	}
	cases := map[string]struct {
		policy  v1alpha1.AttunePolicy
		finding bool
	}{
		"ready":                {policyWith(time.Hour, ready("True", v1alpha1.ReasonMonitoring)), false},
		"too little data":      {policyWith(time.Hour, ready("False", v1alpha1.ReasonInsufficientData)), false},
		"paused":               {policyWith(time.Hour, ready("False", v1alpha1.ReasonPaused)), false},
		"just made":            {policyWith(answers.UnseenGrace), false},
		"never looked at":      {policyWith(answers.UnseenGrace + time.Second), true},
		"invalid":              {policyWith(time.Hour, ready("False", v1alpha1.ReasonInvalidConfig)), true},
		"stale":                {policyWith(time.Hour, ready("False", v1alpha1.ReasonStaleData)), true},
		"no usage source":      {policyWith(time.Hour, ready("False", v1alpha1.ReasonPrometheusUnavailable)), true},
		"selects nothing":      {policyWith(time.Hour, ready("False", v1alpha1.ReasonNoWorkloadsFound)), true},
		"reverts too often":    {policyWith(time.Hour, ready("True", v1alpha1.ReasonMonitoring), condition(v1alpha1.ConditionDegraded, "True", v1alpha1.ReasonHighRevertRate)), true},
		"healthy and blocked":  {policyWith(time.Hour, ready("True", v1alpha1.ReasonMonitoring), condition(v1alpha1.ConditionResizeBlocked, "True", "Quota")), false},
		"degraded no longer":   {policyWith(time.Hour, ready("True", v1alpha1.ReasonMonitoring), condition(v1alpha1.ConditionDegraded, "False", v1alpha1.ReasonHealthy)), false},
		"the operator unsure":  {policyWith(time.Hour, ready("Unknown", "Starting")), true},
		"unsure but just made": {policyWith(time.Minute, ready("Unknown", "Starting")), false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			report := newStatusReport([]v1alpha1.AttunePolicy{c.policy}, nil, testNow)
			assert.Equal(t, c.finding, report.Policies[0].NeedsPerson)
			assert.Equal(t, c.finding, errors.Is(report.finding(), errFinding))
		})
	}
}

func TestStatusExitsWithTheFinding(t *testing.T) {
	cli := newCLITest(t, interceptor.Funcs{})
	assert.Equal(t, exitOK, cli.run("status", "-A").code)
	broken := policyWith(time.Hour, condition(v1alpha1.ConditionReady, "False", v1alpha1.ReasonInvalidConfig))
	broken.Namespace = "shop"
	assert.NoError(t, cli.client.Create(t.Context(), &broken))
	got := cli.run("status", "-A")
	assert.Equal(t, exitFinding, got.code)
	assert.Empty(t, got.errOut, "a finding is no error")
	assert.Contains(t, got.out, "InvalidConfig")
}

func TestStatusOfAPausedWorkload(t *testing.T) {
	rec := v1alpha1.AttuneRecommendation{
		Spec: v1alpha1.AttuneRecommendationSpec{Workload: v1alpha1.WorkloadRef{Kind: v1alpha1.KindStatefulSet, Name: "db"}},
		Status: v1alpha1.AttuneRecommendationStatus{
			Paused:     &v1alpha1.PausedState{Reason: "another writer resized db-0 twice"},
			Conditions: []metav1.Condition{condition(v1alpha1.ConditionDegraded, "True", v1alpha1.ReasonHighRevertRate), condition(v1alpha1.ConditionResizeBlocked, "False", "NotBlocked")},
		},
	}
	assert.Equal(t, []answers.Blocked{
		{Workload: "StatefulSet/db", Reason: "Paused", Message: "another writer resized db-0 twice"},
		{Workload: "StatefulSet/db", Reason: "HighRevertRate"},
	}, answers.BlockedOfWorkload(&rec))

	rec.Status = v1alpha1.AttuneRecommendationStatus{Phase: v1alpha1.PhasePaused}
	assert.Equal(t, []answers.Blocked{
		{Workload: "StatefulSet/db", Reason: "Paused", Message: "paused by the annotation attune.io/paused or attune.io/undo, or by spec.paused of its policy or of the defaults"},
	}, answers.BlockedOfWorkload(&rec))
}

// New pods that a setting does not size are what the user chose, and the holds of resources say what "Blocked" repeats.
func TestStatusListsNoSettingAsBlocked(t *testing.T) {
	for reason, message := range map[string]string{
		"ModeRecommend": "", "ModeObserve": "", "ModeOneShot": "", v1alpha1.ReasonAdmissionDisabled: "", "Blocked": "",
		"SeedMarkedBad": "new pods keep the resources of their template: SeedMarkedBad",
	} {
		blocked := answers.BlockedOfWorkload(&v1alpha1.AttuneRecommendation{Spec: v1alpha1.AttuneRecommendationSpec{SeedBlocked: reason}})
		if message == "" {
			assert.Empty(t, blocked, reason)
			continue
		}
		require.Len(t, blocked, 1, reason)
		assert.Equal(t, answers.SeedBlocked, blocked[0].Reason)
		assert.Equal(t, message, blocked[0].Message)
	}
}

func TestStatusDistinguishesPoliciesOfOneName(t *testing.T) {
	policies := []v1alpha1.AttunePolicy{policyWith(0), policyWith(0)}
	policies[0].Namespace, policies[1].Namespace = "shop", "pay"
	rec := v1alpha1.AttuneRecommendation{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop"},
		Spec:       v1alpha1.AttuneRecommendationSpec{Policy: v1alpha1.PolicyRef{Name: "p"}, SeedBlocked: "no data"},
	}
	report := newStatusReport(policies, []v1alpha1.AttuneRecommendation{rec}, testNow)
	assert.Equal(t, "pay", report.Policies[0].Namespace)
	assert.Empty(t, report.Policies[0].Blocked)
	assert.Len(t, report.Policies[1].Blocked, 1)
}

func TestStatusSaysThatAdmissionIsDisabled(t *testing.T) {
	p := policyWith(0)
	p.Namespace, p.Status.Mode = "shop", v1alpha1.UpdateAuto
	assert.Equal(t, "Auto", newStatusReport([]v1alpha1.AttunePolicy{p}, nil, testNow).policies().Rows[0][2])
	p.Status.Admission = v1alpha1.Disabled
	report := newStatusReport([]v1alpha1.AttunePolicy{p}, nil, testNow)
	assert.Equal(t, "Auto (admission Disabled)", report.policies().Rows[0][2])
	assert.Equal(t, "Disabled", report.Policies[0].Admission)
}

// The table of next resizes is sorted by time and bounded. A time in the past means now: the operator is about to act.
func TestStatusShowsTheNextResizes(t *testing.T) {
	p := policyWith(time.Hour)
	p.Namespace = "shop"
	rec := func(name, reason string, in time.Duration) v1alpha1.AttuneRecommendation {
		r := v1alpha1.AttuneRecommendation{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop"},
			Spec:       v1alpha1.AttuneRecommendationSpec{Policy: v1alpha1.PolicyRef{Name: "p"}, Workload: v1alpha1.WorkloadRef{Kind: v1alpha1.KindDeployment, Name: name}},
			Status:     v1alpha1.AttuneRecommendationStatus{NextResize: &v1alpha1.NextResize{Reason: reason}},
		}
		if in != 0 {
			r.Status.NextResize.At = ptr.To(metav1.NewTime(testNow.Add(in)))
		}
		return r
	}
	none := rec("none", "", 0)
	none.Status.NextResize = nil
	report := newStatusReport([]v1alpha1.AttunePolicy{p}, []v1alpha1.AttuneRecommendation{
		rec("a", "Quota", 0), rec("b", "CooldownActive", 11*time.Minute+time.Second), rec("c", "Observation", -time.Hour), rec("d", "OutsideSchedule", 30*time.Hour),
		rec("e", "CooldownActive", 720*time.Hour), none,
	}, testNow)
	assert.Equal(t, [][]string{
		{"shop/p", "Deployment/c", "now", "Observation"},
		{"shop/p", "Deployment/b", "in 12m", "CooldownActive"},
		{"shop/p", "Deployment/d", "in 30h", "OutsideSchedule"},
		{"shop/p", "Deployment/e", "in 30d", "CooldownActive"},
		{"shop/p", "Deployment/a", "", "Quota"},
	}, report.nextResizes(false).Rows)

	var many []v1alpha1.AttuneRecommendation
	for i := range 30 {
		many = append(many, rec(fmt.Sprintf("w%02d", i), "CooldownActive", time.Minute))
	}
	report = newStatusReport([]v1alpha1.AttunePolicy{p}, many, testNow)
	assert.Len(t, report.Policies[0].NextResizes, 30)
	rows := report.nextResizes(false).Rows
	assert.Len(t, rows, mostShown+1)
	assert.Equal(t, []string{"", "and 10 more", "", ""}, rows[mostShown])
	assert.Len(t, report.nextResizes(true).Rows, 30, "-o wide has no limit")
}

func TestNothingToShow(t *testing.T) {
	cli := newCLITest(t, interceptor.Funcs{})
	for verb, note := range map[string]string{
		"status":          "no policies found in namespace empty: create one, for example with kubectl attune wizard\n",
		"recommendations": "no recommendations found; kubectl attune status shows the policies\n",
		"history":         "no resizes have finished yet: kubectl attune status shows pending and blocked workloads\n",
		"diff":            "",
	} {
		t.Run(verb, func(t *testing.T) {
			assert.Equal(t, answer{errOut: note}, cli.run(verb, "-n", "empty"))
		})
	}
	assert.Contains(t, cli.run("status", "-n", "empty", "-o", "json").out, `"policies": []`)
	assert.Equal(t, "no policies found in any namespace: create one, for example with kubectl attune wizard\n", cli.run("status", "-A", "-l", "team=nobody").errOut)
}

// renewed creates the leader's lease, renewed so long ago.
func renewed(t *testing.T, cli cliTest, ago time.Duration) {
	t.Helper()
	require.NoError(t, cli.client.Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "attune-system", Name: answers.LeaseName},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("attune-7c9-xyz_1"), RenewTime: ptr.To(metav1.NewMicroTime(testNow.Add(-ago)))},
	}))
}

// If the leader does not renew its lease, status says since when, and its state is a finding. Without the right to read
// the lease, it is unknown. A running operator adds no line.
func TestStatusSaysThatTheOperatorIsNotRunning(t *testing.T) {
	const since = "operator not running since 2026-03-02T11:00:00Z (last renewal of lease attune-system/attune.attune.io)"
	t.Run("not running", func(t *testing.T) {
		cli := newCLITest(t, interceptor.Funcs{})
		renewed(t, cli, time.Hour)
		got := cli.run("status", "-A")
		assert.Equal(t, exitFinding, got.code)
		assert.True(t, strings.HasPrefix(got.out, since+": the state below is of that time\n\nNAMESPACE"), got.out)
		assert.Contains(t, cli.run("status", "-A", "-o", "json").out, `"operator": {
    "state": "NotRunning",
    "since": "2026-03-02T11:00:00Z",
    "message": "`+since+`"
  }`)
		assert.Equal(t, since+"\n", cli.run("status", "-n", "empty").out)
	})
	t.Run("running", func(t *testing.T) {
		cli := newCLITest(t, interceptor.Funcs{})
		renewed(t, cli, time.Second)
		got := cli.run("status", "-A")
		assert.Equal(t, exitOK, got.code)
		assert.True(t, strings.HasPrefix(got.out, "NAMESPACE"), got.out)
		assert.Contains(t, cli.run("status", "-A", "-o", "json").out, `"state": "Running"`)
	})
	t.Run("the local clock is ahead", func(t *testing.T) {
		reads := 0
		cli := newCLITest(t, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			err := c.Get(ctx, key, o, options...)
			if lease, ok := o.(*coordinationv1.Lease); ok && err == nil {
				reads++
				lease.Spec.RenewTime = ptr.To(metav1.NewMicroTime(lease.Spec.RenewTime.Add(time.Duration(reads) * 2 * time.Second)))
			}
			return err
		}})
		renewed(t, cli, time.Hour)
		got := cli.run("status", "-A")
		assert.Equal(t, exitOK, got.code)
		assert.True(t, strings.HasPrefix(got.out, "NAMESPACE"), got.out)
	})
	t.Run("no right", func(t *testing.T) {
		cli := newCLITest(t, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			if _, ok := o.(*coordinationv1.Lease); ok {
				return forbidden("leases")
			}
			return c.Get(ctx, key, o, options...)
		}})
		got := cli.run("status", "-A")
		assert.Equal(t, exitOK, got.code)
		assert.True(t, strings.HasPrefix(got.out, "operator unknown: missing permission to get lease attune-system/attune.attune.io\n\n"), got.out)
		assert.Contains(t, cli.run("status", "-A", "-o", "json").out, `"state": "Unknown"`)
	})
}

// status says by which proof requests change although an HPA scales on them, and bounds the rows.
func TestStatusListsWhatIsGranted(t *testing.T) {
	policies, recs := []v1alpha1.AttunePolicy{policyWith(0)}, make([]v1alpha1.AttuneRecommendation, mostShown+2)
	policies[0].Namespace = "shop"
	for i := range recs {
		recs[i] = v1alpha1.AttuneRecommendation{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop"},
			Spec: v1alpha1.AttuneRecommendationSpec{
				Workload: v1alpha1.WorkloadRef{Kind: v1alpha1.KindDeployment, Name: fmt.Sprintf("web-%02d", i)}, Policy: v1alpha1.PolicyRef{Name: "p"},
				Containers: []v1alpha1.ContainerTarget{{Name: "app", Kept: []v1alpha1.KeptRequest{{
					Resource: "cpu", Least: resource.MustParse("462m"), HPAs: []string{"web"}, Since: metav1.NewTime(testNow), ValidUntil: metav1.NewTime(testNow),
				}}}},
			},
		}
	}
	report := newStatusReport(policies, recs, testNow)
	assert.Len(t, report.Policies[0].Granted, mostShown+2)
	rows := report.granted(false).Rows
	require.Len(t, rows, mostShown+1)
	assert.Equal(t, []string{"shop/p", "Deployment/web-00", "app", "cpu", "Keep"}, rows[0][:5])
	assert.Contains(t, rows[0][5], "HorizontalPodAutoscaler web keeps the number of replicas with a request of at least 462m; history since ")
	assert.Equal(t, "and 2 more", rows[mostShown][1])
	assert.Len(t, report.granted(true).Rows, mostShown+2)
	text, err := report.Human(false)
	require.NoError(t, err)
	assert.Contains(t, text, "GRANTED")
}
