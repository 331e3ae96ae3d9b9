package validation

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/quantity"
)

// Path is the URL path of the webhook.
const Path = "/validate"

// Handler answers admission reviews of attune's own objects. It is safe for concurrent use. Register makes it.
type Handler struct {
	// Reader reads the two kinds of defaults; a cache will do, since a verdict that is based on slightly old
	// defaults is repeated by the operator.
	Reader client.Reader
	// Decoder knows attune's types.
	Decoder admission.Decoder
	// Operator is what the installation of the operator allows.
	Operator policy.Operator
}

// Register adds the webhook to a server.
func Register(server webhook.Server, scheme *runtime.Scheme, reader client.Reader, operator policy.Operator) {
	server.Register(Path, &admission.Webhook{Handler: &Handler{
		Reader:   reader,
		Decoder:  admission.NewDecoder(scheme),
		Operator: operator,
	}})
}

// Handle judges an object that is created or whose spec changes. Every other change passes, even on an object that
// is invalid by now: an invalid object must not keep its labels, and above all its finalizers, for ever. Deletion
// always passes. Where the defaults cannot be read, the answer is an error and the client has to try again.
// A kind that this webhook does not know is never refused. An object that is created may leave its namespace to
// the request.
func (h *Handler) Handle(ctx context.Context, request admission.Request) admission.Response {
	object := newObject(request.Kind.Kind)
	if object == nil || request.Operation == admissionv1.Delete {
		return admission.Allowed("")
	}
	if err := h.read(request.Object, object); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("reading the %s: %w", request.Kind.Kind, err))
	}
	if object.GetDeletionTimestamp() != nil || h.sameSpec(request, object) {
		return admission.Allowed("")
	}
	if err := bounded(settingsOf(object)); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	object.SetNamespace(request.Namespace)
	env, err := h.env(ctx, object)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, fmt.Errorf("reading the defaults, try again: %w", err))
	}
	return answer(Validate(object, env))
}

// read decodes an object, after a check that none of its quantities takes long to parse: the caller need not be an
// API server, whose schema bounds them.
func (h *Handler) read(raw runtime.RawExtension, into client.Object) error {
	if err := quantity.Check(raw.Raw); err != nil {
		return err
	}
	return h.Decoder.DecodeRaw(raw, into)
}

// newObject is an empty object of a kind that is validated, or nil.
func newObject(kind string) client.Object {
	switch kind {
	case "AttunePolicy":
		return &v1alpha1.AttunePolicy{}
	case "AttuneClusterPolicy":
		return &v1alpha1.AttuneClusterPolicy{}
	case "AttuneDefaults":
		return &v1alpha1.AttuneDefaults{}
	case "AttuneNamespaceDefaults":
		return &v1alpha1.AttuneNamespaceDefaults{}
	}
	return nil
}

// sameSpec reports whether an update leaves the spec as it is. An old object that cannot be read counts as
// different.
func (h *Handler) sameSpec(request admission.Request, object client.Object) bool {
	if request.Operation != admissionv1.Update {
		return false
	}
	old := newObject(request.Kind.Kind)
	if err := h.read(request.OldObject, old); err != nil {
		return false
	}
	return equality.Semantic.DeepEqual(specOf(old), specOf(object))
}

// specOf returns the spec of an object, to compare it; nil for an unknown type.
func specOf(object client.Object) any {
	switch o := object.(type) {
	case *v1alpha1.AttunePolicy:
		return o.Spec
	case *v1alpha1.AttuneClusterPolicy:
		return o.Spec
	case *v1alpha1.AttuneDefaults:
		return o.Spec
	case *v1alpha1.AttuneNamespaceDefaults:
		return o.Spec
	}
	return nil
}

// env reads the levels below an object. AttuneDefaults are the lowest level and have none.
func (h *Handler) env(ctx context.Context, object client.Object) (Env, error) {
	env := Env{Operator: h.Operator}
	if _, lowest := object.(*v1alpha1.AttuneDefaults); lowest {
		return env, nil
	}
	cluster := &v1alpha1.AttuneDefaults{}
	found, err := h.get(ctx, "", cluster)
	if err != nil {
		return env, err
	}
	if found {
		env.Cluster = cluster
	}
	if object.GetNamespace() == "" {
		return env, nil // a cluster policy
	}
	namespace := &v1alpha1.AttuneNamespaceDefaults{}
	found, err = h.get(ctx, object.GetNamespace(), namespace)
	if found {
		env.Namespace = namespace
	}
	return env, err
}

// get reads the object named default; false: there is none.
func (h *Handler) get(ctx context.Context, namespace string, into client.Object) (found bool, err error) {
	err = h.Reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: v1alpha1.DefaultsName}, into)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// answer turns a verdict into a response: a refusal where something is denied, and the warnings in any case.
func answer(v Verdict) admission.Response {
	response := admission.Allowed("")
	if len(v.Denied) > 0 {
		response = denied(v.Denied)
	}
	// kubectl shows warnings to the person who applies the object.
	for _, problem := range v.Warnings {
		response.Warnings = append(response.Warnings, "nothing will be sized until this is mended: "+problem.Sentence)
	}
	return response
}

// denied is a refusal as the API server gives it for its own rules: reason Invalid, with a cause for each field,
// so that clients can show it at the field.
func denied(problems []policy.Problem) admission.Response {
	sentences := make([]string, len(problems))
	causes := make([]metav1.StatusCause, len(problems))
	for i, problem := range problems {
		sentences[i] = problem.Sentence
		causes[i] = metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: "spec." + problem.Fields[0], Message: problem.Sentence}
	}
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{
		Result: &metav1.Status{
			Status:  metav1.StatusFailure,
			Code:    http.StatusUnprocessableEntity,
			Reason:  metav1.StatusReasonInvalid,
			Message: strings.Join(sentences, "; "),
			Details: &metav1.StatusDetails{Causes: causes},
		},
	}}
}
