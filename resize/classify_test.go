package resize_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	. "attune.io/attune/resize"
)

func TestClassify(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	kind := schema.GroupKind{Kind: "Pod"}
	forbidden := func(message string, causes ...metav1.CauseType) error {
		err := apierrors.NewForbidden(pods, "web-1", errors.New(message))
		for _, c := range causes {
			err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: c})
		}
		return err
	}
	denied := func(code int32, reason metav1.StatusReason, message string) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message}}
	}
	invalid := func(path string) error {
		return apierrors.NewInvalid(kind, "web-1", field.ErrorList{field.Forbidden(field.NewPath(path), "only cpu and memory resources are mutable")})
	}
	for _, tc := range []struct {
		name   string
		err    error
		want   OutcomeKind
		reason string
		again  bool
	}{
		{"accepted", nil, OutcomeAccepted, "", false},
		{"1 gone", apierrors.NewNotFound(pods, "web-1"), OutcomeGone, "NotFound", false},
		{"2 another pod of the same name", invalid("metadata.uid"), OutcomeGone, "Replaced", false},
		{"17 conflict", apierrors.NewConflict(pods, "web-1", errors.New("changed")), OutcomeConflict, "Conflict", true},
		{"invalid", invalid("spec"), OutcomeTerminal, "Invalid", false},
		{"86 no such subresource", apierrors.NewMethodNotSupported(pods, "patch"), OutcomeTerminal, "MethodNotAllowed", false},
		{"a patch of a kind it does not know", apierrors.NewGenericServerResponse(415, "patch", pods, "web-1", "", 0, true), OutcomeTerminal, "UnsupportedMediaType", false},
		{"bad request", apierrors.NewBadRequest("no"), OutcomeTerminal, "BadRequest", false},
		{"26 node capacity, by its cause", forbidden("node didn't have enough allocatable resources: cpu, requested: 4000, allocatable: 2000", "NodeCapacity"), OutcomeInfeasible, "NodeCapacity", true},
		{"26 node capacity, by its text", forbidden("node didn't have enough allocatable resources: cpu, requested: 4000, allocatable: 2000"), OutcomeInfeasible, "NodeCapacity", true},
		{"47 not a Linux node", forbidden(`pod resize is only supported on linux nodes, node "n" is "windows"`, "UnsupportedPlatform"), OutcomeInfeasible, "UnsupportedPlatform", true},
		{"46 a feature the node has not", forbidden(`pod update requires features InPlacePodLevelResourcesVerticalScaling which are not available on node "n"`), OutcomeInfeasible, "NodeFeature", true},
		{"the API server does not know the node yet", forbidden(`node "n" not found`), OutcomeTransient, "NodeNotFound", true},
		{"the API server is starting", forbidden("not yet ready to handle request"), OutcomeTransient, "NotReady", true},
		{"the quota is not counted yet", forbidden("status unknown for quota: q, resources: cpu"), OutcomeTransient, "QuotaStatusUnknown", true},
		{"53 LimitRange ratio", forbidden("cpu max limit to request ratio per Container is 2, but provided ratio is 4.000000"), OutcomePolicyRefusal, "LimitRange", true},
		{"54 LimitRange", forbidden("[maximum cpu usage per Container is 500m, but limit is 600m]"), OutcomePolicyRefusal, "LimitRange", true},
		{"56 quota", forbidden("exceeded quota: q, requested: cpu=100m, used: cpu=700m, limited: cpu=700m"), OutcomePolicyRefusal, "QuotaExceeded", true},
		{"57 quota must specify", forbidden("failed quota: q: must specify limits.memory for: c1"), OutcomePolicyRefusal, "QuotaMustSpecify", true},
		{"59 namespace", forbidden("unable to create new content in namespace shop because it is being terminated"), OutcomePolicyRefusal, "NamespaceTerminating", true},
		{"60 an admission policy", forbidden("ValidatingAdmissionPolicy 'x' denied request: no resizes on Fridays"), OutcomePolicyRefusal, "AdmissionPolicy", true},
		{"60 an admission policy, with the code it has by default", denied(422, metav1.StatusReasonInvalid, "ValidatingAdmissionPolicy 'x' with binding 'y' denied request: failed expression: false"), OutcomePolicyRefusal, "AdmissionPolicy", true},
		{"60 an admission policy that calls it unauthorized", denied(401, metav1.StatusReasonUnauthorized, "ValidatingAdmissionPolicy 'x' with binding 'y' denied request: no"), OutcomePolicyRefusal, "AdmissionPolicy", true},
		{"60 a webhook's own code", denied(429, metav1.StatusReasonTooManyRequests, `admission webhook "sizes.example.org" denied the request: no`), OutcomePolicyRefusal, "AdmissionPolicy", true},
		{"90 rights", forbidden(`User "system:serviceaccount:attune-system:attune" cannot patch resource "pods/resize" in API group "" in the namespace "shop"`), OutcomeRBAC, "Forbidden", true},
		{"90 a token that has expired", apierrors.NewUnauthorized("expired"), OutcomeRBAC, "Unauthorized", true},
		{"18 timed out", apierrors.NewTimeoutError("timed out", 1), OutcomeUnknown, "Unanswered", true},
		{"18 server timeout", apierrors.NewServerTimeout(pods, "patch", 1), OutcomeUnknown, "Unanswered", true},
		{"18 broken", apierrors.NewInternalError(errors.New("etcd")), OutcomeUnknown, "Unanswered", true},
		{"18 overloaded", apierrors.NewTooManyRequestsError("later"), OutcomeUnknown, "Unanswered", true},
		{"18 cut off", &url.Error{Op: "Patch", URL: "https://x", Err: context.DeadlineExceeded}, OutcomeUnknown, "Unanswered", true},
		{"18 cancelled", context.Canceled, OutcomeUnknown, "Unanswered", true},
		{"wrapped", fmt.Errorf("resizing: %w", forbidden("x", "NodeCapacity")), OutcomeInfeasible, "NodeCapacity", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := Classify(tc.err)
			assert.Equal(t, tc.want, got.Kind)
			assert.Equal(t, tc.reason, got.Reason)
			assert.Equal(t, tc.again, got.RetryAfter > 0)
			if tc.err != nil {
				assert.Equal(t, tc.err.Error(), got.Message)
			}
			assert.Equal(t, tc.want != OutcomeAccepted && tc.want != OutcomeUnknown, got.Refused())
		})
	}
}

// A size that no node of that kind could hold does not block the node.
func TestAnswersThatConcernTheNode(t *testing.T) {
	for _, tc := range []struct {
		outcome Outcome
		of      bool
	}{{nodeRefuses, false}, {Outcome{Kind: OutcomeInfeasible, Reason: "NodeFeature"}, true}, {overQuota, false}, {Outcome{Kind: OutcomeAccepted}, false}} {
		assert.Equal(t, tc.of, tc.outcome.OfNode(), tc.outcome.Reason)
	}
}
