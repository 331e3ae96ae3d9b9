package pod

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/internal/constraint"
	"attune.io/attune/recommender"
)

// Predicted is the size of a container of a new pod.
type Predicted struct {
	// Name of the container.
	Name string
	// Requests in millicores and bytes, without a boost; 0: the container has none.
	Requests [2]recommender.Amount
	// Boost is the extra CPU request until the container has started, in millicores.
	Boost recommender.Amount
	// Seeded are the resources whose request the seed sets, or changes with its limit. Others stay as in the
	// template.
	Seeded [2]bool
}

// PredictSeed returns the requests with which the next pod of a template will be created in a namespace with these
// LimitRanges, by the same steps as SeedPod. It returns none if the pod would not be changed. It does not predict
// whether a quota has room for the pod, because that changes all the time. An error means that the template cannot be
// read as a pod.
func PredictSeed(template *corev1.PodTemplateSpec, rec *Recommendation, limits []*corev1.LimitRange, now time.Time) ([]Predicted, error) {
	text, err := json.Marshal(atAdmission(template, limits))
	if err != nil {
		return nil, fmt.Errorf("writing the template: %w", err)
	}
	p := &Pod{}
	if err := json.Unmarshal(text, p); err != nil {
		return nil, fmt.Errorf("reading the template as a pod: %w", err)
	}
	var predicted []Predicted
	for _, u := range sized(p, rec, &Namespace{Bounds: constraint.BoundsOf(limits)}, now, &Decision{}) {
		seed := rec.Seed.of(u.Name)
		if seed == nil || !u.runs() {
			continue
		}
		b := Predicted{Name: u.Name}
		for _, r := range recommender.Resources {
			b.Requests[r], b.Seeded[r] = u.will[r].Request, seed.Of[r].request > 0 || u.will[r].Request != u.was[r].Request
		}
		if u.boosted() {
			b.Requests[recommender.CPU], b.Boost = u.plain.Request, u.will[recommender.CPU].Request-u.plain.Request
		}
		predicted = append(predicted, b)
	}
	return predicted, nil
}

// atAdmission returns a template in the form in which its pods reach admission: the API server has set missing requests
// from limits, and then LimitRanger has set its defaults. The template itself is not changed.
func atAdmission(template *corev1.PodTemplateSpec, limits []*corev1.LimitRange) *corev1.PodTemplateSpec {
	var items []corev1.LimitRangeItem
	for _, of := range limits {
		items = append(items, constraint.Items([]corev1.LimitRange{*of}, corev1.LimitTypeContainer)...)
	}
	out := *template
	for _, list := range []*[]corev1.Container{&out.Spec.InitContainers, &out.Spec.Containers} {
		*list = slices.Clone(*list)
		for i := range *list {
			c := (*list)[i].Resources.DeepCopy()
			c.Requests = constraint.AddMissing(c.Requests, c.Limits)
			for _, item := range items {
				c.Limits, c.Requests = constraint.AddMissing(c.Limits, item.Default), constraint.AddMissing(c.Requests, item.DefaultRequest)
			}
			(*list)[i].Resources = *c
		}
	}
	return &out
}
