package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fieldselector "k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/test/fault"
)

// REST is how a client of controller-runtime reaches the server, as it reaches a real one: a wrapper of its transport
// sees every request. No socket is involved. Watches and server-side apply are not served.
func (s *Server) REST(actor string) (*rest.Config, meta.RESTMapper) {
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, k := range s.kinds {
		scope := meta.RESTScopeNamespace
		if k.cluster {
			scope = meta.RESTScopeRoot
		}
		mapper.AddSpecific(k.GroupVersionKind, k.GroupVersion().WithResource(k.resource), k.GroupVersion().WithResource(k.resource), scope)
	}
	return &rest.Config{
		Host: "http://memory", QPS: -1, Transport: &transport{s.As(actor, nil)},
		ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON},
	}, mapper
}

// done is the answer where there is no object.
var done = &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess}

// transport answers requests from a client of the server.
type transport struct{ *Client }

// RoundTrip answers one request.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		defer r.Body.Close()
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	code := http.StatusOK
	answer, err := t.serve(r.Context(), request{fault.CallOf(r, body), r.URL.Query(), r.Header})
	if refused := apierrors.APIStatus(nil); errors.As(err, &refused) {
		status := refused.Status()
		status.Kind, status.APIVersion = "Status", "v1"
		answer, code = &status, int(status.Code)
	} else if err != nil {
		return nil, err
	}
	if strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata") && code == http.StatusOK {
		answer, err = metadataOf(answer)
		if err != nil {
			return nil, err
		}
	}
	text, err := json.Marshal(answer)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		Status: http.StatusText(code), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {runtime.ContentTypeJSON}}, Body: io.NopCloser(bytes.NewReader(text)), ContentLength: int64(len(text)),
	}, nil
}

// request is a call with what its address and its header say more.
type request struct {
	fault.Call
	query  url.Values
	header http.Header
}

// serve makes the call; the answer is an object or a list.
func (t *transport) serve(ctx context.Context, r request) (any, error) {
	var of *kind
	for _, k := range t.Server.kinds {
		if k.resource == r.Resource {
			of = k
		}
	}
	if of == nil || r.DryRun && r.Kind() != "patch "+r.Resource {
		return nil, fmt.Errorf("the server does not serve %s", r.Call)
	}
	o := of.New()
	if r.Verb == "create" && r.Subresource == "" || r.Verb == "update" {
		if err := json.Unmarshal(r.Body, o); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	o.SetNamespace(r.Namespace)
	o.SetName(r.Name)
	if r.Subresource != "" {
		return t.serveSubresource(ctx, r, o)
	}
	switch r.Verb {
	case "get":
		return o, t.Get(ctx, client.ObjectKeyFromObject(o), o)
	case "list":
		return t.serveList(ctx, r, of)
	case "create":
		return o, t.Create(ctx, o)
	case "update":
		return o, t.Update(ctx, o)
	case "patch":
		if r.DryRun {
			if err := t.Patch(ctx, o, r.patch(), client.DryRunAll); err != nil {
				return nil, err
			}
			return o, t.Get(ctx, client.ObjectKeyFromObject(o), o)
		}
		return o, t.Patch(ctx, o, r.patch())
	case "delete":
		of := &metav1.DeleteOptions{}
		if len(r.Body) > 0 {
			if err := json.Unmarshal(r.Body, of); err != nil {
				return nil, apierrors.NewBadRequest(err.Error())
			}
		}
		return done, t.Delete(ctx, o, &client.DeleteOptions{GracePeriodSeconds: of.GracePeriodSeconds, Preconditions: of.Preconditions})
	}
	return nil, fmt.Errorf("the server does not serve %s", r.Call)
}

func (t *transport) serveSubresource(ctx context.Context, r request, o client.Object) (any, error) {
	to := t.SubResource(r.Subresource)
	switch r.Verb {
	case "create":
		sub := client.Object(&policyv1.Eviction{})
		if r.Subresource == "binding" {
			sub = &corev1.Binding{}
		}
		if err := json.Unmarshal(r.Body, sub); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return done, to.Create(ctx, o, sub)
	case "update":
		return o, to.Update(ctx, o)
	case "patch":
		return o, to.Patch(ctx, o, r.patch(), client.FieldOwner(r.query.Get("fieldManager")))
	}
	return nil, fmt.Errorf("the server does not serve %s", r.Call)
}

func (r request) patch() client.Patch {
	return client.RawPatch(types.PatchType(r.header.Get("Content-Type")), r.Body)
}

func (t *transport) serveList(ctx context.Context, r request, of *kind) (any, error) {
	list, err := t.Scheme().New(of.GroupVersion().WithKind(of.Kind + "List"))
	if err != nil {
		return nil, err
	}
	options := &client.ListOptions{Namespace: r.Namespace}
	if options.LabelSelector, err = labels.Parse(r.query.Get("labelSelector")); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if options.FieldSelector, err = fieldselector.ParseSelector(r.query.Get("fieldSelector")); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return list, t.List(ctx, list.(client.ObjectList), options)
}

// metadataOf is all of an object or a list that a client of metadata asks for.
func metadataOf(answer any) (any, error) {
	if o, single := answer.(client.Object); single {
		return partial(o), nil
	}
	list := &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadataList", APIVersion: metav1.SchemeGroupVersion.String()}}
	return list, meta.EachListItem(answer.(runtime.Object), func(o runtime.Object) error {
		list.Items = append(list.Items, *partial(o.(client.Object)))
		return nil
	})
}

func partial(o client.Object) *metav1.PartialObjectMetadata {
	out := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: metav1.SchemeGroupVersion.String()}}
	out.ObjectMeta = *half(o, "ObjectMeta").Addr().Interface().(*metav1.ObjectMeta)
	return out
}
