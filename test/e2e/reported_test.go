package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
)

// rowsOf are the rows of a workload's history with a result.
func rowsOf(ctx context.Context, d *appsv1.Deployment, result string) ([]v1alpha1.HistoryEntry, error) {
	rec, err := recommendation(ctx, d)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(rec.Status.History, func(row v1alpha1.HistoryEntry) bool { return row.Result != result }), nil
}

// blockedBy is blocked with a part of the message.
func blockedBy(ctx context.Context, d *appsv1.Deployment, reason, message string) error {
	rec, err := recommendation(ctx, d)
	if err != nil {
		return err
	}
	c := meta.FindStatusCondition(rec.Status.Conditions, v1alpha1.ConditionResizeBlocked)
	if c == nil || c.Status != metav1.ConditionTrue || c.Reason != reason || !strings.Contains(c.Message, message) {
		return fmt.Errorf("records %v, history %v, conditions %v", rec.Status.Records, rec.Status.History, rec.Status.Conditions)
	}
	return nil
}

// hasEvent looks for a reason among what was told of an object.
func hasEvent(ctx context.Context, ns, about, reason string) error {
	list := &corev1.EventList{}
	if err := env.client.List(ctx, list, client.InNamespace(ns)); err != nil {
		return err
	}
	for _, e := range list.Items {
		if e.Reason == reason && strings.Contains(e.Message, about) {
			return nil
		}
	}
	return fmt.Errorf("no event %s of %s among %d", reason, about, len(list.Items))
}
